import type { Metadata } from "next";
import { ScoreMine } from "@/screens/score";

export const metadata: Metadata = { title: "Score mine" };

export default function Page() {
  return <ScoreMine />;
}
