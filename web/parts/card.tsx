"use client";
/** The validity card: one line if its bounds are met; those that are not stand open below it. */
import { count } from "@/lib/format";
import type { CardRow } from "@/lib/schema";
import { Icon } from "./icons";

const FIRST = ["admitted_after_t", "effective_n", "n_events", "share_price_older_than_7_days", "undated_forecasts"];

export function ValidityCard({ card, kept = [] }: { card: CardRow[] | null | undefined; kept?: string[] }) {
  if (!card) return null;
  const bounded = card.filter((row) => row.ok !== null);
  const unmet = bounded.filter((row) => row.ok === false);
  const line = FIRST.map((name) => card.find((row) => row.name === name)).filter((row): row is CardRow => row !== undefined && row.ok !== false);
  return (
    <div className="overflow-hidden rounded-md border border-line bg-surface" data-card={unmet.length ? "unmet" : "met"}>
    <details className="group">
      <summary className="flex flex-wrap items-center gap-x-5 gap-y-1 px-3.5 py-2 text-12 text-ink-2">
        <span className={`state text-13 font-semibold ${unmet.length ? "text-warn" : "text-beats"}`}>
          <Icon name={unmet.length ? "bang" : "check"} />
          {unmet.length ? `${unmet.length} of ${bounded.length} bounds not met` : `Valid: ${bounded.length} of ${bounded.length} bounds met`}
        </span>
        {line.map((row) => (
          <span key={row.name}>
            {row.label} <b className="tnum font-semibold text-ink">{row.text}</b>
          </span>
        ))}
        <span className="ml-auto font-medium text-accent">
          <span className="group-open:hidden">All {count(card.length)} facts</span>
          <span className="hidden group-open:inline">Fewer</span>
        </span>
      </summary>
      <dl className="grid border-t border-line min-[720px]:grid-cols-2 min-[1100px]:grid-cols-3">
        {card.map((row) => (
          <div key={row.name} className="grid grid-cols-[1fr_auto] gap-x-3 border-b border-line px-3.5 py-2" data-fact={row.name}>
            <dt className="font-medium">{row.label}</dt>
            <dd className="tnum text-right font-semibold">{row.text}</dd>
            <dd className="note col-span-2">
              {row.about}
              {row.bound && (
                <>
                  {"; bound: "}
                  {row.bound}
                  <b className={row.ok === false ? "text-warn" : "text-beats"}>{row.ok === null ? "" : row.ok ? " ✓ met" : " ! not met"}</b>
                </>
              )}
            </dd>
          </div>
        ))}
      </dl>
      {kept.length > 0 && <p className="note px-3.5 py-2.5">Kept from the future: {kept.join("; ")}.</p>}
    </details>
      {unmet.map((row) => (
        <Unmet key={row.name} row={row} />
      ))}
    </div>
  );
}

function Unmet({ row }: { row: CardRow }) {
  return (
    <p className="flex items-baseline gap-2.5 bg-warn-soft px-3.5 py-2.5" data-unmet={row.name}>
      <span className="text-warn"><Icon name="bang" /></span>
      <span>
        <b className="font-semibold">{row.label}: {row.text}</b>, {row.bound} needed. {row.about.charAt(0).toUpperCase() + row.about.slice(1)}.
        {row.name === "share_answered" ? "Whoever answered less is never said to beat the market." : "While a bound is not met, “beats the market” is never said."}
      </span>
    </p>
  );
}
