"use client";
/** A market through time: its price, one forecaster's steps, what was known when, and how it ended.
 * Recharts draws the lines and axes; marks that move with t lie over it on the same scale. */
import { useRef } from "react";
import { CartesianGrid, Line, LineChart, XAxis, YAxis } from "recharts";
import { fixed, instant, outcomeWord } from "@/lib/format";
import { tickText, timeTicks, useWidth } from "./scale";

export interface Step {
  t: number;
  p: number;
  market: number | null;
}

export interface Mark {
  t: number;
  kind: "shown" | "held" | "canary" | "rules";
  id: string;
  label: string;
}

interface Props {
  prices: { t: number; p: number }[];
  steps: Step[];
  marks: Mark[];
  name: string | null;
  outcome: number | null;
  end: number | null;
  t: number;
  range: [number, number];
  /** `drop` is true once the pointer is let go. */
  onMove: (t: number, drop: boolean) => void;
  onMark: (mark: Mark) => void;
}

const TALL = 300;
const [LEFT, RIGHT, TOP, FOOT] = [58, 26, 26, 26];
const LANE = 20;
const SNAP = 6;

export default function MarketChart({ prices, steps, marks, name, outcome, end, t, range, onMove, onMark }: Props) {
  const [box, width] = useWidth();
  const dragging = useRef(false);
  const [from, until] = range;
  const inner = Math.max(1, width - LEFT - RIGHT);
  const x = (at: number) => LEFT + (inner * (at - from)) / (until - from || 1);
  const y = (p: number) => TOP + (TALL - TOP - FOOT) * (1 - p);
  const lanes = [
    { kind: "shown" as const, label: "shown" },
    { kind: "held" as const, label: "not shown" },
    { kind: "canary" as const, label: "canary" },
    { kind: "rules" as const, label: "rules" },
  ].filter((lane) => marks.some((mark) => mark.kind === lane.kind));
  const height = TALL + lanes.length * LANE + 4;
  const last = steps.filter((step) => step.t <= t).at(-1);
  const price = prices.filter((one) => one.t <= t).at(-1)?.p ?? null;
  const ticks = timeTicks(from, until, Math.max(2, Math.floor(inner / 110)));
  const tx = Math.min(Math.max(x(t), LEFT), width - RIGHT);
  const flip = tx < LEFT + 150;
  const labels = [
    price !== null && { text: `market ${fixed(price, 3)}`, p: price, color: "var(--m)" },
    last && name && { text: `${name} ${fixed(last.p, 3)}`, p: last.p, color: "var(--c1)" },
  ].filter((one): one is { text: string; p: number; color: string } => Boolean(one));
  const close = labels.length === 2 && Math.abs(y(labels[0]!.p) - y(labels[1]!.p)) < 16;
  const at = (clientX: number) => {
    const left = box.current!.getBoundingClientRect().left;
    const raw = from + ((clientX - left - LEFT) / inner) * (until - from);
    const snapped = steps.find((step) => Math.abs(x(step.t) - (clientX - left)) <= SNAP)?.t;
    return Math.min(until, Math.max(from, snapped ?? raw));
  };
  const word = outcomeWord(outcome);
  const describe =
    `Price of YES from ${instant(from)} to ${instant(until)}.` +
    (name && steps.length ? ` ${steps.length} forecasts of ${name}.` : "") +
    (outcome === null ? "" : ` It ended at ${word ?? outcome}.`) +
    ` At ${instant(t)}: ${labels.map((one) => one.text).join(", ") || "no price yet"}.`;
  return (
    <div
      ref={box}
      className="chart select-none"
      style={{ height, touchAction: "pan-y" }}
      onPointerDown={(event) => {
        if ((event.target as HTMLElement).closest("button")) return;
        dragging.current = true;
        event.currentTarget.setPointerCapture(event.pointerId);
        onMove(at(event.clientX), false);
      }}
      onPointerMove={(event) => dragging.current && onMove(at(event.clientX), false)}
      onPointerUp={(event) => {
        if (dragging.current) onMove(at(event.clientX), true);
        dragging.current = false;
      }}
    >
      {width > 0 && (
        <div role="img" aria-label={describe}>
          <LineChart width={width} height={TALL} margin={{ left: LEFT, right: RIGHT, top: TOP, bottom: 0 }} accessibilityLayer={false}>
            <CartesianGrid stroke="var(--grid)" />
            <XAxis
              dataKey="t" type="number" domain={[from, until]} ticks={ticks} height={FOOT} tickLine={false}
              axisLine={{ stroke: "var(--line-2)" }} tick={{ fill: "var(--ink-3)", fontSize: 11 }}
              tickFormatter={(value: number, i: number) => tickText(value, i, ticks)} allowDataOverflow interval={0}
            />
            <YAxis hide type="number" domain={[0, 1]} ticks={[0, 0.25, 0.5, 0.75, 1]} allowDataOverflow />
            <Line data={prices} dataKey="p" type="stepAfter" stroke="var(--m)" strokeWidth={1.75} dot={false} isAnimationActive={false} activeDot={false} />
            {steps.length > 0 && <Line data={[...steps, { t: end ?? until, p: steps.at(-1)!.p }]} dataKey="p" type="stepAfter" stroke="var(--c1)" strokeWidth={1.75} isAnimationActive={false} activeDot={false} dot={false} />}
          </LineChart>
          <svg width={width} height={height} className="pointer-events-none absolute inset-0" aria-hidden="true">
            <defs>
              <pattern id="hatch" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
                <path d="M0 0v8" stroke="var(--hatch)" strokeWidth="1" />
              </pattern>
            </defs>
            {[0, 0.25, 0.5, 0.75, 1].map((v) => (
              <text key={v} x={LEFT - 8} y={y(v) + 4} textAnchor="end" className="axis-text">{v}</text>
            ))}
            <text x={LEFT - 8} y={12} className="axis-text" textAnchor="start" dx={-44}>Probability of YES</text>
            {outcome !== null &&
              steps.map((step) => {
                if (step.market === null) return null;
                const gain = (step.market - outcome) ** 2 - (step.p - outcome) ** 2;
                if (Math.abs(step.p - step.market) < 0.004) return null;
                return <line key={step.t} x1={x(step.t)} x2={x(step.t)} y1={y(step.market)} y2={y(step.p)} stroke={gain > 0 ? "var(--beats)" : "var(--worse)"} strokeWidth="4" strokeOpacity="0.45" />;
              })}
            {steps.map((step) => <circle key={step.t} cx={x(step.t)} cy={y(step.p)} r="3.5" fill="var(--c1)" stroke="var(--surface)" strokeWidth="1.5" />)}
            {lanes.map((lane, i) => (
              <g key={lane.kind} transform={`translate(0 ${TALL + i * LANE + LANE / 2})`}>
                <text x={LEFT - 8} y="4" textAnchor="end" className="axis-text">{lane.label}</text>
                <line x1={LEFT} x2={width - RIGHT} stroke="var(--grid)" />
              </g>
            ))}
            {/* After t everything is veiled. */}
            <rect x={tx} y={TOP} width={Math.max(0, width - RIGHT - tx)} height={height - TOP - 4} fill="var(--veil)" />
            <rect x={tx} y={TOP} width={Math.max(0, width - RIGHT - tx)} height={height - TOP - 4} fill="url(#hatch)" />
            {ticks.map((tick, i) => x(tick) > tx && (
              <text key={tick} x={x(tick)} y={TALL - 8} textAnchor="middle" className="axis-text">{i >= 0 && tickText(tick, i, ticks)}</text>
            ))}
            {outcome !== null && end !== null && (
              <g>
                <line x1={x(end)} x2={x(end)} y1={TOP} y2={TALL - FOOT} stroke="var(--axis)" strokeDasharray="2 3" />
                <circle cx={x(end)} cy={y(outcome)} r="5.5" fill="var(--surface)" stroke="var(--m)" strokeWidth="2" />
                <circle cx={x(end)} cy={y(outcome)} r="2.2" fill="var(--m)" />
                <text x={x(end) - 11} y={y(outcome) + 4} textAnchor="end" className="label-text">
                  ended {word ?? fixed(outcome, 2)}
                </text>
              </g>
            )}
            <line x1={tx} x2={tx} y1={TOP - 4} y2={height - 4} stroke="var(--c1)" strokeWidth="1.5" />
            <g transform={`translate(${Math.min(Math.max(tx, 62), width - 62)} 0)`}>
              <rect x="-62" width="124" height="19" rx="3" fill="var(--accent)" />
              <text y="13.5" textAnchor="middle" fontSize="11" fontWeight="600" fill="var(--accent-ink)">{instant(t)}</text>
            </g>
            {labels.map((one, i) => (
              <g key={one.text}>
                <circle cx={tx} cy={y(one.p)} r="4.5" fill={one.color} stroke="var(--surface)" strokeWidth="1.5" />
                <text
                  x={flip ? tx + 9 : tx - 9}
                  y={y(one.p) + (close ? (i === 0 ? (labels[0]!.p >= labels[1]!.p ? -7 : 17) : labels[1]!.p > labels[0]!.p ? -7 : 17) : -7)}
                  textAnchor={flip ? "start" : "end"}
                  className="label-text"
                  style={{ fill: one.color }}
                >
                  {one.text}
                </text>
              </g>
            ))}
          </svg>
        </div>
      )}
      {width > 0 &&
        lanes.map((lane, i) =>
          marks
            .filter((mark) => mark.kind === lane.kind)
            .map((mark) => (
              <button
                key={`${mark.kind}${mark.id}${mark.t}`}
                type="button"
                className="absolute grid place-items-center"
                style={{ left: Math.max(x(mark.t), LEFT) - 7, top: TALL + i * LANE, width: 14, height: LANE, opacity: mark.t > t ? 0.35 : 1 }}
                aria-label={`${mark.label}, known ${instant(mark.t)}`}
                title={`${mark.label}\nknown ${instant(mark.t)}`}
                onClick={() => onMark(mark)}
              >
                {mark.kind === "rules" ? (
                  <svg width="9" height="9" viewBox="0 0 10 10" aria-hidden="true"><path d="M5 0 10 5 5 10 0 5z" fill="var(--ink-2)" /></svg>
                ) : mark.kind === "canary" ? (
                  <svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path d="M5 1 9.5 9h-9z" fill="none" stroke="var(--warn)" strokeWidth="1.6" /></svg>
                ) : mark.kind === "held" ? (
                  <span className="block size-2 rounded-full border-[1.5px] border-ink-2" />
                ) : (
                  <span className="block h-3 w-[2.5px] bg-[var(--c1)]" />
                )}
              </button>
            )),
        )}
    </div>
  );
}
