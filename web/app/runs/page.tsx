import type { Metadata } from "next";
import { Runs } from "@/screens/runs";

export const metadata: Metadata = { title: "Runs" };

export default function Page() {
  return <Runs />;
}
