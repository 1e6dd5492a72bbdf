"use client";
/** Every question as a point: the squared error of one forecaster across, of the other up. */
import { CartesianGrid, ReferenceLine, Scatter, ScatterChart, XAxis, YAxis } from "recharts";
import { useWidth } from "./scale";

export interface Point {
  id: string;
  x: number;
  y: number;
  outcome: number;
}

export default function Errors({ points, a, b, onOpen }: { points: Point[]; a: string; b: string; onOpen: (id: string) => void }) {
  const [box, width] = useWidth();
  const side = Math.min(width, 560);
  const sides = [
    { name: "YES", color: "var(--yes)", rows: points.filter((one) => one.outcome >= 0.5) },
    { name: "NO", color: "var(--no)", rows: points.filter((one) => one.outcome < 0.5) },
  ];
  const axis = { type: "number" as const, domain: [0, 1], ticks: [0, 0.2, 0.4, 0.6, 0.8, 1], tickLine: false, tick: { fill: "var(--ink-3)", fontSize: 11 }, axisLine: { stroke: "var(--line-2)" } };
  return (
    <div ref={box} className="chart" role="img" aria-label={`${points.length} questions: squared error of ${a} across, of ${b} up. Above the diagonal ${a} is better.`}>
      {side > 0 && (
        <ScatterChart width={side} height={side} margin={{ left: 4, right: 14, top: 10, bottom: 18 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--grid)" />
          <XAxis dataKey="x" {...axis} label={{ value: `squared error of ${a} (A)`, position: "insideBottom", offset: -12, fill: "var(--ink-3)", fontSize: 11 }} />
          <YAxis dataKey="y" {...axis} width={44} label={{ value: `squared error of ${b} (B)`, angle: -90, position: "insideLeft", fill: "var(--ink-3)", fontSize: 11, style: { textAnchor: "middle" } }} />
          <ReferenceLine segment={[{ x: 0, y: 0 }, { x: 1, y: 1 }]} stroke="var(--axis)" strokeDasharray="4 4" />
          {sides.map((one) => (
            <Scatter key={one.name} name={one.name} data={one.rows} fill={one.name === "YES" ? one.color : "var(--surface)"} stroke={one.color} fillOpacity={0.65} isAnimationActive={false}
              onClick={(point: unknown) => onOpen((point as { payload: Point }).payload.id)}
              shape={({ cx, cy }: { cx?: number; cy?: number }) => <circle cx={cx} cy={cy} r="3" fill={one.name === "YES" ? one.color : "var(--surface)"} fillOpacity="0.65" stroke={one.color} strokeWidth="1.1" className="cursor-pointer" />} />
          ))}
        </ScatterChart>
      )}
      {side > 0 && (
        <>
          <span className="label-text absolute top-5 left-16 text-12 font-semibold text-ink">A better</span>
          <span className="absolute text-12 font-semibold text-ink" style={{ top: side - 74, left: side - 84 }}>B better</span>
        </>
      )}
    </div>
  );
}
