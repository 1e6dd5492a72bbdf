import type { Metadata } from "next";
import { Rounds } from "@/screens/rounds";

export const metadata: Metadata = { title: "Rounds" };

export default function Page() {
  return <Rounds />;
}
