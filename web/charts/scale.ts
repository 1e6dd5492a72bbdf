"use client";
/** Widths in pixels, and round instants on a time axis. */
import { useLayoutEffect, useRef, useState } from "react";
import { day } from "@/lib/format";

/** The measured width of a box. */
export function useWidth(): [React.RefObject<HTMLDivElement | null>, number] {
  const ref = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useLayoutEffect(() => {
    if (!ref.current) return;
    const watch = new ResizeObserver(([entry]) => setWidth(Math.round(entry!.contentRect.width)));
    watch.observe(ref.current);
    return () => watch.disconnect();
  }, []);
  return [ref, width];
}

const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const STEPS = [HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 7 * DAY, 14 * DAY];

/** At most `n` round instants between two, in milliseconds. */
export function timeTicks(from: number, until: number, n: number): number[] {
  const step = STEPS.find((s) => (until - from) / s <= n);
  if (step) {
    const found: number[] = [];
    for (let t = Math.ceil(from / step) * step; t <= until; t += step) found.push(t);
    return found;
  }
  const months = (until - from) / (30 * DAY);
  const every = [1, 2, 3, 6, 12].find((m) => months / m <= n) ?? 12 * Math.ceil(months / 12 / n);
  const found: number[] = [];
  const first = new Date(from);
  for (let i = 0; ; i += 1) {
    const t = Date.UTC(first.getUTCFullYear(), Math.ceil((first.getUTCMonth() + 1) / every) * every + i * every, 1);
    if (t > until) return found;
    if (t >= from) found.push(t);
  }
}

/** A tick's text: the hour where that says something, the year on the first and in January. */
export function tickText(t: number, i: number, ticks: number[]): string {
  const d = new Date(t);
  if ((ticks[1] ?? Infinity) - (ticks[0] ?? 0) < DAY && d.getUTCHours() !== 0) return d.toISOString().slice(11, 16);
  const [n, month, year] = day(t).split(" ");
  return i === 0 || (d.getUTCMonth() === 0 && n === "1") ? `${n} ${month} ${year}` : `${n} ${month}`;
}
