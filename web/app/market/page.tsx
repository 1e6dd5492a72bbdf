import type { Metadata } from "next";
import { Market } from "@/screens/market";

export const metadata: Metadata = { title: "Market" };

export default function Page() {
  return <Market />;
}
