import { fixed, pairText } from "@/lib/format";

/** What the paired difference of two forecasters says, in words. */
export function paired(a: string, b: string, found: { difference: number | null; ci: (number | null)[]; verdict: string }): React.ReactNode {
  const [low, high] = found.ci;
  const difference = found.difference ?? 0;
  const [better, other] = difference >= 0 ? [a, b] : [b, a];
  const sure = typeof low === "number" && typeof high === "number" && (low > 0 || high < 0);
  const size = <b className="tnum">{fixed(Math.abs(difference))}</b>;
  if (!sure) {
    return (
      <>
        <b>{a}</b> and <b>{b}</b> are not shown to differ: {size} apart in squared error <span className="text-ink-2">(95 % interval {pairText(found.ci)}, which holds 0)</span>
      </>
    );
  }
  return (
    <>
      <b>{better}</b> has a lower squared error than <b>{other}</b> by {size} <span className="text-ink-2">(95 % interval {pairText(found.ci)})</span>
    </>
  );
}
