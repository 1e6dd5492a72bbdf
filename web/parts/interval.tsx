"use client";
/** An estimate with its 95 % interval (band) and the deflated one (line) on an axis shared by rows. */
import { fixed, signed, type Maybe } from "@/lib/format";
import type { BoardRow } from "@/lib/schema";

export interface Gain {
  mean: number | null | undefined;
  ci: readonly (number | null | undefined)[];
  bounds: readonly (number | null | undefined)[];
}

/** The mean gain of a forecaster's positions on the market, with its 95 % interval and the bounds widened for tries: what the verdict rests on. */
export function gainOf(row: BoardRow): Gain {
  if (row.evidence) return row.evidence;
  return row.forecaster === "market" ? { mean: 0, ci: [0, 0], bounds: [0, 0] } : { mean: null, ci: [], bounds: [] };
}

/** True where the widened interval holds 0: the data cannot tell the forecaster from the market. */
export function tied(row: BoardRow): boolean {
  const [low, high] = gainOf(row).bounds;
  return row.forecaster !== "market" && typeof low === "number" && typeof high === "number" && low <= 0 && high >= 0;
}

export interface Axis {
  low: number;
  high: number;
  ticks: number[];
}

export interface Range {
  estimate: Maybe<number>;
  ci: readonly Maybe<number>[];
  deflated?: readonly Maybe<number>[];
}

const STEPS = [1, 2, 2.5, 5];

/** Round numbers over a range, about `n` of them. */
export function ticksOf(low: number, high: number, n = 5): number[] {
  const rough = (high - low) / n;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (STEPS.find((s) => s * power >= rough) ?? 10) * power;
  const found: number[] = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i++) found.push(Math.round(i * step * 1e9) / 1e9);
  return found;
}

/** The axis holds 0, what reaches above it, and the typical rows below; what lies far off is an
 * arrow with its number, so that the rest keeps its size. */
export function axisOf(ranges: Range[]): Axis {
  const ends = ranges.map((r) => [r.deflated?.[0] ?? r.ci[0], r.deflated?.[1] ?? r.ci[1]]).filter((p): p is number[] => p.every((v) => typeof v === "number"));
  const sizes = ends.map(([a, b]) => Math.max(Math.abs(a!), Math.abs(b!))).filter((v) => v > 0).sort((a, b) => a - b);
  const typical = sizes[Math.floor((sizes.length - 1) * 0.7)] ?? 0.01;
  const low = Math.min(0, ...ends.map(([a]) => a!).filter((a) => a >= -2.5 * typical));
  const high = Math.max(0, ...ranges.flatMap((r) => ((r.estimate ?? -Infinity) < low ? [r.ci[1]] : [r.ci[1], r.deflated?.[1]])).filter((v): v is number => typeof v === "number"));
  // An arrow's number needs room beside the 0.
  const off = ends.some(([, b]) => b! < low);
  const reach = off ? Math.min(low, -0.3 * high) : low;
  const room = (high - reach) * 0.06 || 0.01;
  const axis = { low: reach - room, high: high + room };
  return { ...axis, ticks: ticksOf(axis.low, axis.high) };
}

export function rangeOf(row: BoardRow): Range {
  const gain = gainOf(row);
  return { estimate: gain.mean, ci: gain.ci, deflated: gain.bounds };
}

export function boardAxis(rows: BoardRow[]): Axis {
  return axisOf(rows.filter((row) => row.forecaster !== "market").map(rangeOf));
}

export function tone(verdict: string): string {
  return verdict === "beats the market" ? "var(--beats)" : verdict === "worse than the market" ? "var(--worse)" : "var(--ink-2)";
}

const pos = (axis: Axis, v: number) => (100 * (v - axis.low)) / (axis.high - axis.low);

export function IntervalMark({ name, range, axis, color, height = 30 }: { name: string; range: Range; axis: Axis; color: string; height?: number }) {
  const [low, high] = range.ci;
  const value = range.estimate;
  const middle = height / 2;
  const at = (v: number) => `${Math.min(100, Math.max(0, pos(axis, v)))}%`;
  const has = typeof low === "number" && typeof high === "number" && typeof value === "number";
  const off = has && (value < axis.low ? -1 : value > axis.high ? 1 : 0);
  const label = has ? `${name}: ${fixed(value)}, 95 % interval ${fixed(low)} to ${fixed(high)}` : `${name}: no interval`;
  const [dl, dh] = range.deflated ?? [];
  return (
    <svg width="100%" height={height} role="img" aria-label={label} className="block min-w-[180px]">
      {axis.ticks.map((tick) => (
        <line key={tick} x1={at(tick)} x2={at(tick)} y1="0" y2={height} stroke={tick === 0 ? "var(--m)" : "var(--grid)"} strokeWidth={tick === 0 ? 1.25 : 1} />
      ))}
      {has && low === high && value === 0 ? (
        <path d={`M-5 ${middle}h10M0 ${middle - 5}v10`} stroke="var(--m)" strokeWidth="2" style={{ transform: `translateX(${at(0)})` }} />
      ) : has && off ? (
        <g fill={color}>
          {off < 0 && high > axis.low && <line x1={62} x2={at(high)} y1={middle} y2={middle} stroke={color} strokeWidth="9" strokeOpacity="0.34" />}
          <path d={off < 0 ? `M2 ${middle}l7-4.5v9z` : `M-2 ${middle}l-7-4.5v9z`} style={off > 0 ? { transform: "translateX(100%)" } : undefined} />
          <text x={off < 0 ? 14 : "calc(100% - 14px)"} y={middle + 4} textAnchor={off < 0 ? "start" : "end"} className="axis-text halo">{signed(value)}</text>
        </g>
      ) : has ? (
        <g stroke={color} fill={color}>
          <line x1={at(low)} x2={at(high)} y1={middle} y2={middle} strokeWidth="9" strokeOpacity="0.34" />
          {typeof dl === "number" && typeof dh === "number" && (
            <>
              <line x1={at(dl)} x2={at(dh)} y1={middle} y2={middle} strokeWidth="1.25" />
              {[dl, dh].map((v, i) => (
                <line key={i} x1={at(v)} x2={at(v)} y1={middle - 3.5} y2={middle + 3.5} strokeWidth="1.25" />
              ))}
            </>
          )}
          <circle cx={at(value)} cy={middle} r="4" stroke="var(--surface)" strokeWidth="1.5" />
        </g>
      ) : null}
    </svg>
  );
}

/** The axis above a column of marks. */
export function IntervalAxis({ axis, sides = ["worse", "better"] }: { axis: Axis; sides?: [string, string] }) {
  const digits = Math.max(0, -Math.floor(Math.log10(Math.max(...axis.ticks.map((t, i) => (i ? t - axis.ticks[i - 1]! : 0)), 1e-9)) + 1e-9));
  const precise = axis.ticks.some((t) => Math.abs(Number(t.toFixed(digits)) - t) > 1e-9) ? digits + 1 : digits;
  return (
    <>
    <span className="sr">Difference with its 95 % interval</span>
    <svg width="100%" height="30" aria-hidden="true" className="block min-w-[180px]">
      {/* Near an edge a side's name stands at the edge, so that it is not cut off. */}
      <text x={pos(axis, 0) < 25 ? "0%" : `${pos(axis, 0)}%`} dx={pos(axis, 0) < 25 ? 0 : -8} y="11" textAnchor={pos(axis, 0) < 25 ? "start" : "end"} className="axis-text">{`← ${sides[0]}`}</text>
      <text x={pos(axis, 0) > 75 ? "100%" : `${pos(axis, 0)}%`} dx={pos(axis, 0) > 75 ? 0 : pos(axis, 0) < 25 ? 46 : 8} y="11" textAnchor={pos(axis, 0) > 75 ? "end" : "start"} className="axis-text">{`${sides[1]} →`}</text>
      {axis.ticks.map((tick, i) => (
        <text
          key={tick}
          x={`${pos(axis, tick)}%`}
          y="27"
          textAnchor={i === 0 && pos(axis, tick) < 6 ? "start" : i === axis.ticks.length - 1 && pos(axis, tick) > 94 ? "end" : "middle"}
          className="axis-text"
        >
          {tick === 0 ? "0" : signed(tick, precise)}
        </text>
      ))}
    </svg>
    </>
  );
}
