import type { Metadata } from "next";
import { Calibration } from "@/screens/calibration";

export const metadata: Metadata = { title: "Calibration" };

export default function Page() {
  return <Calibration />;
}
