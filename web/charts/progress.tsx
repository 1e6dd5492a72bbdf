"use client";
/** Steps done through time; where no process was alive, the time is shaded. */
import { CartesianGrid, Line, LineChart, ReferenceArea, XAxis, YAxis } from "recharts";
import { clock } from "@/lib/format";
import { useWidth } from "./scale";

export interface Done {
  t: number;
  done: number;
}

export default function Progress({ points, gaps, total }: { points: Done[]; gaps: [number, number][]; total: number }) {
  const [box, width] = useWidth();
  const [from, until] = [points[0]?.t ?? 0, Math.max(points.at(-1)?.t ?? 1, (points[0]?.t ?? 0) + 1)];
  return (
    <div ref={box} className="chart" role="img" aria-label={`${points.at(-1)?.done ?? 0} of ${total} steps done; no process was alive ${gaps.length} times`}>
      {width > 0 && (
        <LineChart width={width} height={190} data={points} margin={{ left: 0, right: 18, top: 8, bottom: 0 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--grid)" vertical={false} />
          {gaps.map(([a, b]) => <ReferenceArea key={a} x1={a} x2={b} fill="var(--warn-soft)" fillOpacity={1} label={{ value: "no process", position: "insideTop", fill: "var(--ink-2)", fontSize: 11 }} />)}
          <XAxis dataKey="t" type="number" domain={[from, until]} tickCount={5} tickLine={false} axisLine={{ stroke: "var(--line-2)" }} tick={{ fill: "var(--ink-3)", fontSize: 11 }}
            tickFormatter={(t: number) => clock(new Date(t).toISOString()).slice(0, 8)} />
          <YAxis domain={[0, total || 1]} width={42} allowDecimals={false} tickLine={false} axisLine={false} tick={{ fill: "var(--ink-3)", fontSize: 11 }} />
          <Line dataKey="done" type="stepAfter" stroke="var(--c1)" strokeWidth={1.75} dot={false} isAnimationActive={false} activeDot={false} />
        </LineChart>
      )}
    </div>
  );
}
