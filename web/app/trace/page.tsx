import type { Metadata } from "next";
import { Trace } from "@/screens/trace";

export const metadata: Metadata = { title: "Trace" };

export default function Page() {
  return <Trace />;
}
