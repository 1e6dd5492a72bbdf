import type { Metadata } from "next";
import { Run } from "@/screens/run";

export const metadata: Metadata = { title: "Run" };

export default function Page() {
  return <Run />;
}
