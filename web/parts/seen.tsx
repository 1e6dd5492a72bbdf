"use client";
/** What a forecaster saw of a market at t, and what was hidden from it. */
import Link from "@/parts/link";
import { count, counted, day, fixed, instant, iso, ms, outcomeWord, signed, span } from "@/lib/format";
import { to } from "@/lib/url";
import { versionsOf } from "@/lib/wordings";
import type { EvidenceRow, MarketAt, RunWhole } from "@/lib/schema";
import type { Step } from "@/charts/market-chart";
import { Icon } from "@/parts/icons";
import { LeakBadge } from "@/parts/leak-badge";

interface SeeProps {
  at: MarketAt | undefined;
  busy: boolean;
  t: number;
  decided: Step | undefined;
  why: string | undefined;
  steps: Step[];
  name: string | null;
  evidence: EvidenceRow[];
  /** Documents about this market that became known after t. */
  later: number;
  whole: MarketAt;
  run: RunWhole | undefined;
  series: number;
  onMove: (t: number, drop: boolean) => void;
  onRecord: (rec: string) => void;
}

/** Exactly what the forecaster could see at t, and what was hidden from it. */
export function See({ at, busy, t, decided, why, steps, name, evidence, later, whole, run, series, onMove, onRecord }: SeeProps) {
  const shown = decided ? evidence.filter((row) => ms(row.time) === decided.t) : (at?.context.search_snippets ?? []).map((s) => ({ document_id: s.id, text: s.text, known_at: s.timestamp }));
  const n = decided ? steps.indexOf(decided) + 1 : 0;
  const next = steps.find((step) => step.t > t);
  const before = steps.filter((step) => step.t < t).at(-1);
  const price = at?.odds?.price ?? null;
  const versions = versionsOf(at?.wordings ?? []);
  const wording = versions.at(-1);
  const earlier = steps.filter((step) => decided && step.t < decided.t);
  const payout = whole.resolution?.payout;
  const gain = decided && decided.market !== null && typeof payout === "number" ? (decided.market - payout) ** 2 - (decided.p - payout) ** 2 : 0;
  const known = at ? new Set(evidence.filter((row) => ms(row.known_at) <= t).map((row) => row.document_id)).size : 0;
  return (
    <aside className="panel min-[1180px]:sticky min-[1180px]:top-[68px]" aria-label="What could be seen at t" aria-busy={busy}>
      <div className="flex items-center gap-2 border-b border-line px-3 py-3.5">
        <button type="button" className="btn btn-bare !h-8" aria-label="Previous forecast" disabled={!before} onClick={() => before && onMove(before.t, true)}><Icon name="left" /></button>
        <div className="flex-1 text-center">
          <p className="text-[1rem] font-semibold" aria-live="polite" data-t={iso(t)}>{instant(t)}</p>
          <p className="note !mx-auto">
            {decided ? (decided.t === t ? `forecast ${n} of ${steps.length}, made at this instant` : `forecast ${n} of ${steps.length}, made ${instant(decided.t)}`) : name ? `before the first forecast of ${name}` : "no run forecast it"}
          </p>
        </div>
        <button type="button" className="btn btn-bare !h-8" aria-label="Next forecast" disabled={!next} onClick={() => next && onMove(next.t, true)}><Icon name="right" /></button>
      </div>
      <div className="grid grid-cols-3 gap-3 border-b border-line px-5 py-4">
        <Big label="market" color="var(--m)" value={fixed(price, 3)} id="price" />
        <Big label={name ?? "forecast"} color="var(--c1)" value={fixed(decided?.p, 3)} id="forecast" />
        <Big label="difference" value={signed(decided && price !== null ? decided.p - price : null, 3)} id="difference" />
      </div>
      {why && (
        <section className="border-b border-line px-5 py-4">
          <h3>What it gave as its reason</h3>
          <p className="text-ink-2">“{why}”</p>
        </section>
      )}
      {decided && decided.market !== null && typeof payout === "number" && (
        <section className="border-b border-line px-5 py-4" data-far-off={((decided.p - payout) ** 2).toFixed(4)}>
          <h3>How far off it was</h3>
          <p className="text-ink-2">
            Squared error <b className="tnum text-ink">{fixed((decided.p - payout) ** 2)}</b>. The market’s price then was off by <b className="tnum text-ink">{fixed((decided.market - payout) ** 2)}</b> itself;{" "}
            {Math.abs(gain) < 5e-5 ? "it added nothing to that." : gain > 0 ? <>by leaving that price it took <b className="tnum text-beats">{fixed(gain)}</b> off that.</> : <>by leaving that price it added <b className="tnum text-worse">{fixed(-gain)}</b>.</>}
          </p>
        </section>
      )}
      <section className="grid gap-1.5 border-b border-line px-5 py-4">
        <h3 className="flex justify-between">It could see <span className="note !font-normal">{evidence.length ? counted(known, "document") + " in all up to then" : ""}</span></h3>
        {at?.odds ? (
          <Seen label="Price" onOpen={() => onRecord("price")}>{fixed(price, 3)}, observed {span(at.odds.price_age)} before t</Seen>
        ) : (
          <p className="text-ink-2">No price yet.</p>
        )}
        {wording ? (
          <>
            <Seen label="Text" onOpen={() => onRecord("market")}>version {versions.length}, known {instant(wording.known_at)}</Seen>
            <Rules versions={versions} />
          </>
        ) : (
          at && <p className="text-ink-2">Its text was not known yet: the id and prices alone.</p>
        )}
        <h3 className="mt-2 flex justify-between">{decided ? "Shown for this forecast" : "It would be shown"} <span className="note !font-normal">{counted(shown.length, "document")}</span></h3>
        {shown.length === 0 && <p className="text-ink-2">{evidence.length === 0 && whole.context.search_snippets.length === 0 ? "Untested: the archive has no document for this market." : "No document fitted then."}</p>}
        <ul>
          {shown.map((row) => (
            <li key={row.document_id} className="grid grid-cols-[1fr_auto] gap-x-3 border-t border-line py-2">
              <button type="button" className="text-left text-accent underline decoration-1 underline-offset-2" onClick={() => onRecord(`document:${row.document_id}`)}>{row.text.split("\n")[0]!.slice(0, 140)}</button>
              <span className="note whitespace-nowrap" data-known={row.known_at}>{instant(row.known_at).replace(/ \d{4},/, ",")}</span>
              <span className="col-span-2 font-mono text-11 text-ink-3">{row.document_id}</span>
            </li>
          ))}
        </ul>
      </section>
      {earlier.length > 0 && (
        <section className="border-b border-line px-5 py-4">
          <h3 className="flex justify-between">Earlier forecasts of {name} <span className="note !font-normal">{earlier.length > 4 ? `the last 4 of ${count(earlier.length)}` : count(earlier.length)}</span></h3>
          <p className="tnum text-ink-2">{earlier.slice(-4).map((step) => `${day(step.t).replace(/ \d{4}$/, "")} ${fixed(step.p, 3)}`).join(" · ")}</p>
        </section>
      )}
      <section className="hatched grid gap-1 border-b border-line px-5 py-4">
        <h3 className="flex items-center gap-2"><Icon name="lock" /> Hidden from it at this instant</h3>
        <dl className="facts">
          <dt>Outcome</dt>
          <dd>{whole.resolution ? (ms(whole.resolution.known_at) > t ? `${outcomeWord(whole.resolution.payout) ?? fixed(whole.resolution.payout, 2)}, known ${instant(whole.resolution.known_at)}` : "known by then") : "not on record"}</dd>
          {evidence.length > 0 && <><dt>Later documents</dt><dd>{count(later)}</dd></>}
          <dt>Later prices</dt>
          <dd>{at ? count(Math.max(0, series - at.price_n)) : "–"}</dd>
        </dl>
      </section>
      <div className="flex justify-between px-5 py-3.5">
        <LeakBadge run={run} onOpen={() => onRecord("leaks")} />
        {run && name && decided && <Link href={to("/trace/", { run: run.run_id, id: whole.market.id, f: name, t: iso(decided.t) })}>Trace of this forecast</Link>}
      </div>
    </aside>
  );
}

function Big({ label, value, color, id }: { label: string; value: string; color?: string; id: string }) {
  return (
    <div className="min-w-0" data-big={id}>
      <p className="truncate text-12 text-ink-3" title={label}>
        {color && <i className="mr-1.5 inline-block size-2 rounded-full" style={{ background: color }} />}
        {label}
      </p>
      <p className="tnum text-20 leading-tight font-semibold">{value}</p>
    </div>
  );
}

function Seen({ label, children, onOpen }: { label: string; children: React.ReactNode; onOpen: () => void }) {
  return (
    <p className="flex justify-between gap-3">
      <span className="text-ink-3">{label}</span>
      <button type="button" className="tnum text-right underline decoration-dotted underline-offset-4" onClick={onOpen}>{children}</button>
    </p>
  );
}

/** The rules of the last version, with what it added marked. */
function Rules({ versions }: { versions: MarketAt["wordings"] }) {
  const text = versions.at(-1)?.rules?.trim();
  if (!text) return null;
  const before = versions.at(-2)?.rules?.trim();
  const added = before && before !== text && text.startsWith(before) ? text.slice(before.length) : "";
  const kept = added ? text.slice(0, before!.length) : text;
  const long = text.length > 420;
  return (
    <blockquote className="border-l-2 border-line-2 pl-3 text-12 text-ink-2">
      {long && !added ? `${kept.slice(0, 400)} …` : kept}
      {added && <ins className="bg-accent-soft no-underline">{added}</ins>}
    </blockquote>
  );
}
