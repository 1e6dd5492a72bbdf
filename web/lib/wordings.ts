import type { MarketAt } from "./schema";

/** The versions of a text that differ from the one before; the first is the first with a text. */
export function versionsOf(wordings: MarketAt["wordings"]): MarketAt["wordings"] {
  const text = (one: MarketAt["wordings"][number] | undefined) => (one ? `${one.question}\n${one.rules ?? one.background ?? ""}` : "");
  return wordings.filter((one) => one.question !== null || one.rules).filter((one, i, all) => text(one) !== text(all[i - 1]));
}
