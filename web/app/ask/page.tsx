import type { Metadata } from "next";
import { Ask } from "@/screens/ask";

export const metadata: Metadata = { title: "Ask" };

export default function Page() {
  return <Ask />;
}
