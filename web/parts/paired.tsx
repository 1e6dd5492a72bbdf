import { fixed, pairText } from "@/lib/format";
import type { PairWire } from "@/lib/schema";
import { told } from "@/parts/told";

/** What one forecaster gains on another, in words. */
export function paired(a: string, b: string, found: PairWire): React.ReactNode {
  const gain = found.gain ?? 0;
  const [better, other] = gain >= 0 ? [a, b] : [b, a];
  const size = <b className="tnum">{fixed(Math.abs(gain))}</b>;
  if (!told(found)) {
    return (
      <>
        <b>{a}</b> and <b>{b}</b> are not shown to differ: {better} gains {size} a forecast <span className="text-ink-2">(95 % interval {pairText(found.gain_bounds)}, over {(found.effective_periods ?? 0).toFixed(1)} effective periods)</span>
      </>
    );
  }
  return (
    <>
      <b>{better}</b> gains {size} a forecast on <b>{other}</b> <span className="text-ink-2">(95 % interval {pairText(found.gain_bounds)})</span>
    </>
  );
}
