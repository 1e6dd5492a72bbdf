import type { Metadata } from "next";
import { Markets } from "@/screens/markets";

export const metadata: Metadata = { title: "Markets" };

export default function Page() {
  return <Markets />;
}
