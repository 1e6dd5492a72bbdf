/** A market's prices in a line, with its outcome as a dot at the end. */
export function Spark({ prices, outcome, width = 120, height = 26 }: { prices: number[]; outcome?: number | null; width?: number; height?: number }) {
  if (!prices.length) return <span className="text-ink-3">–</span>;
  const end = width - 8;
  const x = (i: number) => (prices.length === 1 ? 0 : (i * end) / (prices.length - 1));
  const y = (p: number) => 3 + (height - 6) * (1 - p);
  const path = prices.map((p, i) => (i ? `H${x(i).toFixed(1)}V${y(p).toFixed(1)}` : `M0 ${y(p).toFixed(1)}`)).join("");
  const tone = outcome === 1 ? "var(--yes)" : outcome === 0 ? "var(--no)" : "var(--axis)";
  return (
    <svg width={width} height={height} aria-hidden="true" className="block">
      <path d={`M0 ${y(0)}H${end}M0 ${y(1)}H${end}`} stroke="var(--grid)" fill="none" />
      <path d={prices.length === 1 ? `${path}h${end}` : path} fill="none" stroke="var(--m)" strokeWidth="1.25" />
      {typeof outcome === "number" && <circle cx={end + 4} cy={y(outcome)} r="3" fill={outcome === 1 ? tone : "var(--surface)"} stroke={tone} strokeWidth="1.5" />}
    </svg>
  );
}
