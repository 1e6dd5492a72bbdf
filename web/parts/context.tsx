"use client";
/** What a forecaster was given at an instant, as people read it, and as JSON. */
import { counted, fixed, instant, span } from "@/lib/format";
import type { SeenContext } from "@/lib/schema";
import { Facts } from "./small";

export function Context({ context }: { context: SeenContext }) {
  const { market, search_snippets: documents, previous_intervals: before } = context;
  const [question, ...rules] = (market.description ?? "").split("\n").filter(Boolean);
  return (
    <div className="grid gap-5">
      <section>
        <h2 className="mb-1">The market</h2>
        <p className="font-medium">{question ?? `${market.id}: its text was not known yet`}</p>
        {rules.length > 0 && <blockquote className="mt-1 border-l-2 border-line-2 pl-3 text-12 whitespace-pre-line text-ink-2">{rules.join("\n")}</blockquote>}
        <div className="mt-3 max-w-[420px]">
          <Facts
            rows={[
              ["price of YES", fixed(market.odds, 3)],
              ["its age", span(market.price_age)],
              ["bid, ask", market.bid === null && market.ask === null ? "–" : `${fixed(market.bid, 3)}, ${fixed(market.ask, 3)}`],
              ["text known since", market.text_known_at ? instant(market.text_known_at) : "–"],
            ]}
          />
        </div>
      </section>
      <section>
        <h2 className="mb-1">{counted(documents.length, "document")}</h2>
        {documents.length === 0 && <p className="text-ink-2">None fitted, or the archive has none.</p>}
        <ul>
          {documents.map((one) => (
            <li key={one.id} className="grid gap-x-3 border-t border-line py-2 min-[720px]:grid-cols-[1fr_auto]">
              <span className="whitespace-pre-line">{one.text}</span>
              <span className="note whitespace-nowrap">known {instant(one.timestamp)}</span>
              <span className="col-span-full font-mono text-11 text-ink-3">{one.id}</span>
            </li>
          ))}
        </ul>
      </section>
      {before.length > 0 && (
        <section>
          <h2 className="mb-1">What was decided before</h2>
          <p className="note">The mean of all forecasters of this run that were asked together, at each earlier instant. Each of them is shown this.</p>
          <ul className="tnum">{before.map((one) => <li key={one.time}>{instant(one.time)} <b className="font-semibold">{fixed(one.aggregated_probability, 3)}</b></li>)}</ul>
        </section>
      )}
      <details>
        <summary className="text-accent underline underline-offset-2">As JSON</summary>
        <pre className="code mt-2 !whitespace-pre-wrap [overflow-wrap:anywhere]">{JSON.stringify(context, null, 2)}</pre>
      </details>
    </div>
  );
}
