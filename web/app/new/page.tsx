import type { Metadata } from "next";
import { NewRun } from "@/screens/new";

export const metadata: Metadata = { title: "New run" };

export default function Page() {
  return <NewRun />;
}
