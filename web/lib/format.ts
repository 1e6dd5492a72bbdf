/** Numbers and times as they are shown: a real minus, no break before a unit, UTC. */
const NONE = "–";
const NBSP = "\u00a0";

export type Maybe<T> = T | null | undefined;

function real(value: Maybe<number>): value is number {
  return typeof value === "number" && Number.isFinite(value);
}

export function fixed(value: Maybe<number>, digits = 4): string {
  if (!real(value)) return NONE;
  const text = Math.abs(value).toFixed(digits);
  return value < 0 && Number(text) !== 0 ? `−${text}` : text;
}

/** A sentence of the API with real minus signs. */
export const minus = (text: string) => text.replace(/(?<![\w.])-(?=\d)/g, "−");

/** With its sign, for differences. */
export function signed(value: Maybe<number>, digits = 4): string {
  if (!real(value)) return NONE;
  const text = fixed(value, digits);
  return Number(value.toFixed(digits)) > 0 ? `+${text}` : text;
}

export function count(value: Maybe<number>): string {
  return real(value) ? value.toLocaleString("en-US").replace("-", "−") : NONE;
}

export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export function percent(value: Maybe<number>, digits = 1): string {
  return real(value) ? `${fixed(value * 100, digits)}${NBSP}%` : NONE;
}

export function dollars(value: Maybe<number>): string {
  if (!real(value)) return NONE;
  return `$${value === 0 || value >= 0.01 ? value.toFixed(2) : value.toPrecision(2)}`;
}

export function pairText(pair: Maybe<readonly Maybe<number>[]>, digits = 4): string {
  const [low, high] = pair ?? [];
  if (!real(low) || !real(high)) return NONE;
  // An end that is not 0 is not shown as 0 where the interval lies on one side of it.
  const near = Math.min(Math.abs(low), Math.abs(high));
  const shown = low * high > 0 && near < 0.5 / 10 ** digits ? Math.ceil(-Math.log10(near)) : digits;
  return `${fixed(low, shown)} to ${fixed(high, shown)}`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  return value < 1e6 ? `${(value / 1e3).toFixed(1)} kB` : `${(value / 1e6).toFixed(1)} MB`;
}

const MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ");
const two = (n: number) => String(n).padStart(2, "0");

export function ms(iso: Maybe<string>): number {
  return iso ? Date.parse(iso) : NaN;
}

/** "3 Jul 2026", in UTC. */
export function day(at: Maybe<string | number>): string {
  const d = new Date(at ?? NaN);
  if (Number.isNaN(d.getTime())) return NONE;
  return `${d.getUTCDate()} ${MONTHS[d.getUTCMonth()]} ${d.getUTCFullYear()}`;
}

/** "3 Jul 2026, 20:13", in UTC; the seconds where they say something. */
export function instant(at: Maybe<string | number>, seconds = false): string {
  const d = new Date(at ?? NaN);
  if (Number.isNaN(d.getTime())) return NONE;
  const clock = `${two(d.getUTCHours())}:${two(d.getUTCMinutes())}`;
  return `${day(d.getTime())}, ${clock}${seconds ? `:${two(d.getUTCSeconds())}` : ""}`;
}

/** "14:30:53.207" */
export function clock(at: Maybe<string>): string {
  const d = new Date(at ?? NaN);
  return Number.isNaN(d.getTime()) ? NONE : d.toISOString().slice(11, 23);
}

export function iso(at: number): string {
  return new Date(at).toISOString().replace(/\.000Z$/, "Z");
}

const SPANS: [string, number][] = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

/** A length of time: "2.2 d", "13 min", "320 ms". */
export function span(seconds: Maybe<number>): string {
  if (!real(seconds)) return NONE;
  const size = Math.abs(seconds);
  if (size > 0 && size < 1) return `${Math.round(seconds * 1000)} ms`;
  for (const [unit, length] of SPANS) {
    if (size >= length) {
      const n = seconds / length;
      return `${Math.abs(n) < 10 && unit !== "s" ? n.toFixed(1).replace(/\.0$/, "") : Math.round(n)} ${unit}`;
    }
  }
  return "0 s";
}

export function shortId(id: string): string {
  const [venue, rest] = id.includes(":") ? [id.slice(0, id.indexOf(":")), id.slice(id.indexOf(":") + 1)] : ["", id];
  const short = rest.length > 16 ? `${rest.slice(0, 6)}…${rest.slice(-4)}` : rest;
  return venue ? `${venue}:${short}` : short;
}

export function outcomeWord(value: Maybe<number>): "YES" | "NO" | null {
  return value === 1 ? "YES" : value === 0 ? "NO" : null;
}

/** The beginning of a text, with an ellipsis where it goes on. */
export function briefly(text: Maybe<string>, most: number): string {
  return !text ? "" : text.length > most ? `${text.slice(0, most - 1).trimEnd()}…` : text;
}
