"use client";
/** Gain with its 95 % interval against what a forecast cost, each forecaster named where it is. */
import { CartesianGrid, ErrorBar, LabelList, ReferenceLine, Scatter, ScatterChart, XAxis, YAxis } from "recharts";
import { count, signed } from "@/lib/format";
import { ticksOf, tone } from "@/parts/interval";
import { useWidth } from "./scale";

export interface Priced {
  name: string;
  /** US dollars or tokens for one forecast. */
  x: number;
  /** Gain on the market. */
  y: number;
  ci: readonly (number | null | undefined)[];
  verdict: string;
}

const HEIGHT = 250;

export default function PricedChart({ points, unit }: { points: Priced[]; unit: string }) {
  const [box, width] = useWidth();
  const ends = points.flatMap((one) => [one.y, ...one.ci]).filter((v): v is number => typeof v === "number");
  const [low, high] = [Math.min(0, ...ends), Math.max(0, ...ends)];
  const room = (high - low) * 0.08 || 0.01;
  const most = Math.max(...points.map((one) => one.x));
  const rows = points.map((one) => {
    const [from, until] = one.ci;
    return { ...one, error: typeof from === "number" && typeof until === "number" ? [one.y - from, until - one.y] : [0, 0] };
  });
  const dollars = unit.startsWith("US");
  const cost = (v: number) => (v === 0 ? "0" : dollars ? `$${Number(v.toPrecision(2))}` : count(Math.round(v)));
  const axis = { tickLine: false, tick: { fill: "var(--ink-3)", fontSize: 11 }, axisLine: { stroke: "var(--line-2)" } };
  return (
    <div ref={box} className="chart" style={{ height: HEIGHT }} role="img" aria-label={points.map((one) => `${one.name}: ${cost(one.x)} a forecast, gain ${signed(one.y)}`).join("; ")}>
      {width > 0 && (
        <ScatterChart width={width} height={HEIGHT} margin={{ left: 0, right: 16, top: 16, bottom: 20 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--grid)" vertical={false} />
          <XAxis type="number" dataKey="x" domain={[0, most * 1.15]} ticks={ticksOf(0, most * 1.15, 3)} tickFormatter={cost} {...axis} label={{ value: unit, position: "insideBottom", offset: -14, fill: "var(--ink-3)", fontSize: 11 }} />
          <YAxis type="number" dataKey="y" width={52} domain={[low - room, high + room]} ticks={ticksOf(low - room, high + room, 4)} tickFormatter={(v: number) => (v === 0 ? "0" : signed(v, 3))} {...axis} />
          <ReferenceLine y={0} stroke="var(--m)" strokeWidth={1.25} />
          <Scatter data={rows} isAnimationActive={false} shape={({ cx, cy, payload }: { cx?: number; cy?: number; payload?: Priced }) => <circle cx={cx} cy={cy} r="4" fill={tone(payload?.verdict ?? "")} stroke="var(--surface)" strokeWidth="1.5" />}>
            <ErrorBar dataKey="error" direction="y" width={5} strokeWidth={1.25} stroke="var(--ink-3)" />
            <LabelList dataKey="name" position="right" offset={8} fill="var(--ink-2)" fontSize={11} />
          </Scatter>
        </ScatterChart>
      )}
    </div>
  );
}
