import type { PairWire } from "@/lib/schema";

/** True where the widened interval of what one gains on the other lies on one side of 0, on enough periods. */
export function told(found: Pick<PairWire, "gain_bounds" | "effective_periods">): boolean {
  const [low, high] = found.gain_bounds;
  return typeof low === "number" && typeof high === "number" && (low > 0 || high < 0) && (found.effective_periods ?? 0) >= 5;
}
