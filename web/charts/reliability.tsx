"use client";
/** A reliability diagram: across, what was said; up, what happened; a bar is a bin's 95 % interval,
 * and a dot's area its share of the questions. */
import { count, fixed, percent } from "@/lib/format";
import type { CalibrationWire } from "@/lib/schema";
import { useWidth } from "./scale";

interface Props {
  of: CalibrationWire;
  against?: CalibrationWire;
  bin?: number | null;
  onBin?: (bin: number) => void;
  most?: number;
  counts?: boolean;
}

export function Reliability({ of, against, bin = null, onBin, most = 520, counts = true }: Props) {
  const [box, measured] = useWidth();
  const width = Math.min(measured, most);
  const [left, right, top, foot] = [46, 14, 10, 40];
  const side = Math.max(0, width - left - right);
  const bars = counts ? 78 : 0;
  const height = top + side + foot + bars;
  const x = (v: number) => left + side * v;
  const y = (v: number) => top + side * (1 - v);
  const known = of.bins.flatMap((one, i) => (one.forecast === null || one.outcome === null ? [] : [{ ...one, i, forecast: one.forecast, outcome: one.outcome }]));
  const path = (bins: CalibrationWire["bins"]) =>
    bins.filter((one) => one.forecast !== null && one.outcome !== null).map((one, i) => `${i ? "L" : "M"}${x(one.forecast!).toFixed(1)} ${y(one.outcome!).toFixed(1)}`).join("");
  const tallest = Math.max(1, ...of.bins.map((one) => one.n));
  const label = `Reliability of ${of.forecaster}: ${known.map((one) => `said ${fixed(one.forecast, 2)}, happened ${fixed(one.outcome, 2)}`).join("; ")}`;
  return (
    <div ref={box} className="chart">
      {side > 0 && (
        <svg width={width} height={height} role="img" aria-label={label}>
          {bin !== null && of.bins[bin] && <rect x={x(of.bins[bin]!.low)} y={top} width={x(of.bins[bin]!.high) - x(of.bins[bin]!.low)} height={side} fill="var(--accent-soft)" />}
          {[0, 0.2, 0.4, 0.6, 0.8, 1].map((v) => (
            <g key={v}>
              <path d={`M${x(v)} ${top}V${y(0)}M${left} ${y(v)}H${x(1)}`} stroke="var(--grid)" fill="none" />
              <text x={left - 8} y={y(v) + 4} textAnchor="end" className="axis-text">{v}</text>
              <text x={x(v)} y={y(0) + 17} textAnchor="middle" className="axis-text">{v}</text>
            </g>
          ))}
          <text x={x(0.5)} y={y(0) + 35} textAnchor="middle" className="axis-text">what was said: mean forecast in the bin</text>
          <text transform={`translate(11 ${y(0.5)}) rotate(-90)`} textAnchor="middle" className="axis-text">what happened: share of YES</text>
          <path d={`M${x(0)} ${y(0)}L${x(1)} ${y(1)}`} stroke="var(--axis)" strokeDasharray="4 4" fill="none" />
          {against && <path d={path(against.bins)} fill="none" stroke="var(--mute)" strokeWidth="1.25" />}
          {known.map((one) => typeof one.ci[0] === "number" && typeof one.ci[1] === "number" && (
            <line key={one.i} x1={x(one.forecast)} x2={x(one.forecast)} y1={y(one.ci[0])} y2={y(one.ci[1])} stroke="var(--c1)" strokeWidth="7" strokeOpacity="0.28" />
          ))}
          <path d={path(of.bins)} fill="none" stroke="var(--c1)" strokeWidth="1.75" />
          {known.map((one) => (
            <circle key={one.i} cx={x(one.forecast)} cy={y(one.outcome)} r={3 + 10 * Math.sqrt(one.share)} fill="var(--c1)" stroke="var(--surface)" strokeWidth="1.5" data-bin={one.i} data-forecast={one.forecast} data-outcome={one.outcome} />
          ))}
          {counts && (
            <g transform={`translate(0 ${y(0) + foot})`}>
              <text x={left} y="12" className="axis-text">forecasts in each bin</text>
              {of.bins.map((one, i) => {
                const tall = (34 * one.n) / tallest;
                return (
                  <g key={i}>
                    <rect x={x(one.low) + 1} width={Math.max(0, x(one.high) - x(one.low) - 2)} y={68 - tall} height={Math.max(tall, 1)} fill="var(--c1)" fillOpacity={i === bin ? 1 : 0.4} />
                    {width > 340 && <text x={(x(one.low) + x(one.high)) / 2} y={64 - tall} textAnchor="middle" className="axis-text">{count(one.n)}</text>}
                  </g>
                );
              })}
            </g>
          )}
        </svg>
      )}
      {onBin &&
        side > 0 &&
        of.bins.map((one, i) => (
          <button
            key={i}
            type="button"
            className="absolute"
            disabled={!one.n}
            style={{ left: x(one.low), width: x(one.high) - x(one.low), top, height: height - top }}
            aria-label={`Bin ${fixed(one.low, 1)} to ${fixed(one.high, 1)}: ${count(one.n)} forecasts, ${percent(one.outcome, 0)} came true`}
            aria-pressed={bin === i}
            onClick={() => onBin(i)}
          />
        ))}
    </div>
  );
}
