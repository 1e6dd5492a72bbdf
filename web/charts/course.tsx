"use client";
/** The gain over time, the band in which it lies by chance where there is no skill, and the heaviest periods. */
import { Area, CartesianGrid, ComposedChart, Line, ReferenceLine, XAxis, YAxis } from "recharts";
import { fixed, signed } from "@/lib/format";
import type { EvidenceWire } from "@/lib/schema";
import { ticksOf } from "@/parts/interval";
import { tickText, timeTicks, useWidth } from "./scale";

const HEIGHT = 260;

export default function CourseChart({ name, found }: { name: string; found: EvidenceWire }) {
  const [box, width] = useWidth();
  const points = found.course.map((one) => ({ t: Date.parse(one.time), gain: one.gain ?? 0, band: [-(one.band ?? 0), one.band ?? 0] as [number, number] }));
  const most = 1.08 * Math.max(0.0001, ...points.flatMap((one) => [Math.abs(one.gain), one.band[1]]));
  const [first, last] = [points[0]!.t, points.at(-1)!.t];
  const ticks = timeTicks(first, last, Math.max(2, Math.floor(width / 130)));
  const axis = { tickLine: false, tick: { fill: "var(--ink-3)", fontSize: 11 }, axisLine: { stroke: "var(--line-2)" } };
  return (
    <div ref={box} className="chart" style={{ height: HEIGHT }} role="img" data-course={points.length} aria-label={`Gain of ${name} over time: ${fixed(found.mean)} at the end, chance alone reaches ${fixed(points.at(-1)!.band[1])}`}>
      {width > 0 && (
        <ComposedChart width={width} height={HEIGHT} data={points} margin={{ left: 0, right: 16, top: 14, bottom: 6 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--grid)" vertical={false} />
          <XAxis type="number" dataKey="t" domain={[first, last]} ticks={ticks} tickFormatter={(t: number, i: number) => tickText(t, i, ticks)} {...axis} />
          <YAxis type="number" width={58} domain={[-most, most]} ticks={ticksOf(-most, most, 5)} tickFormatter={(v: number) => (v === 0 ? "0" : signed(v, 4))} {...axis} />
          <Area dataKey="band" type="linear" stroke="none" fill="var(--ink-3)" fillOpacity={0.16} isAnimationActive={false} />
          <ReferenceLine y={0} stroke="var(--m)" strokeWidth={1.25} />
          {found.heaviest.map((one, i) => (
            <ReferenceLine key={one.time} x={Math.min(Math.max(Date.parse(one.time), first), last)} stroke="var(--ink-3)" strokeDasharray="2 3" label={{ value: String(i + 1), position: "insideBottomLeft", fill: "var(--ink-3)", fontSize: 11 }} />
          ))}
          <Line dataKey="gain" type="linear" stroke="var(--accent)" strokeWidth={1.6} dot={false} isAnimationActive={false} />
        </ComposedChart>
      )}
    </div>
  );
}
