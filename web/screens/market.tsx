"use client";
/** One market: what a forecaster knew at each moment, what it said, and how good that was. */
import dynamic from "next/dynamic";
import { patient } from "@/lib/lazy";
import Link from "@/parts/link";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { said, useGet } from "@/lib/api";
import { leader } from "@/lib/board";
import { count, counted, day, fixed, instant, iso, ms, outcomeWord, signed, span } from "@/lib/format";
import { useRun } from "@/lib/run";
import type { Document, EvidenceRow, ForecastRow, MarketAt, RunWhole } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import type { Mark, Step } from "@/charts/market-chart";
import { Icon } from "@/parts/icons";
import { ScopeBar } from "@/parts/scope";
import { Main } from "@/parts/shell";
import { Exports, Outcome, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";
import { DataTable, type Column } from "@/parts/table";

const MarketChart = dynamic(patient(() => import("@/charts/market-chart")), {
  ssr: false,
  loading: () => <span className="skeleton" style={{ height: 344 }} />,
});
const RecordDrawer = dynamic(patient(() => import("@/parts/drawer").then((found) => found.RecordDrawer)), { ssr: false });
const [HOUR, DAY] = [3_600_000, 86_400_000];

export function Market() {
  const url = useUrl();
  const chosen = useRun();
  const home = useGet("/api/workspace", {});
  const id = url.get("id");
  const archive = chosen.run?.archive ?? (chosen.run ? null : (home.data?.default_archive ?? null));
  const whole = useGet("/api/archives/{archive}/markets/{market_id}", archive && id ? { params: { path: { archive, market_id: id }, query: { evidence: 20 } } } : null);
  const error = chosen.error ?? home.error ?? whole.error;
  const waiting = chosen.loading || home.isLoading || (archive && id && !whole.data);
  return (
    <>
      {chosen.id && <ScopeBar id={chosen.id} run={chosen.run} path={archive && id ? `/api/archives/${archive}/markets/${encodeURIComponent(id)}` : undefined} />}
      <Main busy={Boolean(waiting)}>
        {!id ? (
          <Empty title="Which market?" text="Choose one from the list, or press / and search for its words.">
            <Link className="btn" href="/markets/">All markets</Link>
          </Empty>
        ) : whole.error && (whole.error as { status?: number }).status === 404 ? (
          <Empty title={`${id} is not in ${archive}`} text={said(whole.error)} command="beforehand world import markets markets.jsonl" />
        ) : error ? (
          <Failed error={error} retry={() => void (chosen.retry(), whole.mutate())} what="The market" />
        ) : !archive && !waiting ? (
          <Empty
            title={chosen.run ? "This run's world is not here any more" : "There is no archive here"}
            text={chosen.run ? `Run ${chosen.run.run_id} was made over archive ${chosen.run.archive_digest?.slice(0, 12)}, which no archive of this home folder is.` : "An archive holds markets as they were at each instant."}
            command="beforehand demo"
          />
        ) : waiting || !whole.data || !archive ? (
          <Loading heights={[90, 602, 400]} label="Loading the market" />
        ) : (
          <Story whole={whole.data} archive={archive} run={chosen.run} />
        )}
      </Main>
    </>
  );
}

/** The forecasts and evidence of one market in a run. */
function useRows(run: RunWhole | undefined, id: string) {
  const query = { market_id: id, limit: 1000 };
  const path = run ? { run_id: run.run_id } : null;
  const forecasts = useGet("/api/runs/{run_id}/forecasts", path && { params: { path, query } });
  const evidence = useGet("/api/runs/{run_id}/evidence", path && { params: { path, query } });
  return { forecasts: forecasts.data?.items, evidence: evidence.data?.items ?? [], loading: forecasts.isLoading || evidence.isLoading };
}

function stepsOf(rows: ForecastRow[], name: string | null): Step[] {
  const groups = new Map<string, { sum: number; n: number; market: number | null }>();
  for (const row of rows) {
    if (row.forecaster !== name) continue;
    const held = groups.get(row.time) ?? { sum: 0, n: 0, market: row.market ?? null };
    groups.set(row.time, { ...held, sum: held.sum + row.probability, n: held.n + 1 });
  }
  return [...groups].map(([time, g]) => ({ t: ms(time), p: g.sum / g.n, market: g.market })).sort((a, b) => a.t - b.t);
}

function Story({ whole, archive, run }: { whole: MarketAt; archive: string; run: RunWhole | undefined }) {
  const url = useUrl();
  const id = whole.market.id;
  const { forecasts, evidence, loading } = useRows(run, id);
  const names = useMemo(() => {
    const found = [...new Set((forecasts ?? []).map((row) => row.forecaster ?? ""))].filter((n) => n && n !== "market");
    const best = run && leader(run)?.forecaster;
    return best && found.includes(best) ? [best, ...found.filter((n) => n !== best)] : found;
  }, [forecasts, run]);
  const name = names.includes(url.get("f") ?? "") ? url.get("f") : (names[0] ?? null);
  const steps = useMemo(() => stepsOf(forecasts ?? [], name), [forecasts, name]);
  const keep = useMemo(() => steps.slice(0, 500).map((step) => iso(step.t)), [steps]);
  const series = useGet(
    "/api/archives/{archive}/series/{market_id}",
    run && forecasts === undefined && loading ? null : { params: { path: { archive, market_id: id }, query: { points: 1000, keep } } },
    { keepPreviousData: true },
  );
  const prices = useMemo(() => (series.data ? series.data.known_at.map((at, i) => ({ t: at / 1000, p: series.data!.price[i]! })) : []), [series.data]);
  const outcome = whole.resolution?.payout ?? null;
  const end = whole.resolution ? ms(whole.resolution.known_at) : null;
  const range = useMemo<[number, number]>(() => {
    const times = [...prices.map((p) => p.t), ...steps.map((s) => s.t), ...(end ? [end] : [])];
    const [from, until] = [Math.min(...times), Math.max(...times)];
    return Number.isFinite(from) ? [from, Math.max(until, from + HOUR)] : [ms(whole.t) - DAY, ms(whole.t)];
  }, [prices, steps, end, whole.t]);
  const named = ms(url.get("t"));
  const t = Number.isFinite(named) ? named : (steps.at(-1)?.t ?? range[1]);
  const settled = useSettled(t);
  const at = useGet(
    "/api/archives/{archive}/markets/{market_id}",
    { params: { path: { archive, market_id: id }, query: { t: iso(Math.ceil(settled)) } } },
    { keepPreviousData: true },
  );
  const decided = steps.filter((step) => step.t <= t).at(-1);
  // The best matches of the whole record: which of them were never shown?
  const fitting = useGet(
    "/api/archives/{archive}/documents",
    run && evidence.length ? { params: { path: { archive }, query: { q: (whole.market.question ?? id).slice(0, 500), limit: 20 } } } : null,
  );
  const documents = fitting.data?.items;
  const marks = useMemo(() => marksOf(evidence, whole, documents ?? []), [evidence, whole, documents]);
  const move = useCallback((next: number, drop: boolean) => url.set({ t: iso(Math.round(next / 1000) * 1000) }, drop ? "push" : "replace"), [url]);
  useKeys(t, range, steps, move);
  const open = (mark: Mark) => url.set({ rec: mark.kind === "rules" ? "market" : `document:${mark.id}` });
  const ready = series.data && (!run || forecasts !== undefined);
  return (
    <>
      <Title
        crumb={<><Link href={to("/markets/", { run: run?.run_id })}>Markets</Link> / {id}</>}
        lede={
          <span className="flex flex-wrap gap-x-5 gap-y-1">
            <span>{outcome === null ? "Open, as far as the archive knows" : <>Ended <Outcome value={outcome} />, {instant(end)}</>}</span>
            <span>{whole.market.venue}{whole.market.currency === "play" ? ", play money, so no Kelly" : ""}</span>
            {steps.length > 0 && <span>{counted(steps.length, "forecast")} of {name}</span>}
            <LeakBadge run={run} onOpen={() => url.set({ rec: "leaks" })} />
          </span>
        }
      >
        {whole.market.question ?? id}
      </Title>
      <div className="grid items-start gap-6 min-[1180px]:grid-cols-[minmax(0,1fr)_376px]">
        <div className="grid min-w-0 gap-6 max-[1180px]:contents">
          <Panel
            title="Through time"
            hint={names.length > 0 && <Switch names={names} name={name} onChoose={(f) => url.set({ f })} />}
            right={<Exports path={`/api/archives/${archive}/series/${encodeURIComponent(id)}`} name={`${id.replace(":", "-")}-prices`} forms={["csv"]} />}
          >
            {ready ? (
              <MarketChart prices={prices} steps={steps} marks={marks} name={name} outcome={outcome} end={end} t={t} range={range} onMove={move} onMark={open} />
            ) : (
              <span className="skeleton" style={{ height: 344 }} />
            )}
            <Scrubber t={t} range={range} onMove={move} />
            <p className="legend mt-1">
              <span><svg width="20" height="8" aria-hidden="true"><path d="M0 6h8V2h12" fill="none" stroke="var(--m)" strokeWidth="1.75" /></svg>market price</span>
              {name && <span><svg width="20" height="8" aria-hidden="true"><path d="M0 4h20" stroke="var(--c1)" strokeWidth="1.75" /><circle cx="4" cy="4" r="3.2" fill="var(--c1)" /></svg>forecast, held until the next</span>}
              {name && outcome !== null && <><span><i className="inline-block h-3 w-1 bg-beats opacity-60" />nearer the outcome than the market</span><span><i className="inline-block h-3 w-1 bg-worse opacity-60" />farther</span></>}
              {series.data?.method && <span>{count(prices.length)} of {count(series.data.n)} prices drawn ({series.data.method})</span>}
              {marks.some((m) => m.kind === "held") && <span><i className="inline-block size-2 rounded-full border-[1.5px] border-ink-2" />a document that fits and was never shown</span>}
              {run && !marks.some((m) => m.kind === "shown") && <span>Evidence: untested, no document was shown for this market.</span>}
            </p>
            <TableOfPrices prices={prices} />
          </Panel>
          {name && <Forecasts className="max-[1180px]:order-last" run={run!} steps={steps} evidence={evidence} outcome={outcome} name={name} t={t} id={id} onChoose={(at) => move(at, true)} />}
        </div>
        <See at={at.data} busy={at.isValidating || settled !== t} t={t} decided={decided} why={forecasts?.find((row) => decided && row.forecaster === name && ms(row.time) === decided.t)?.rationale} steps={steps} name={name} evidence={evidence} later={new Set(marks.filter((mark) => mark.kind !== "rules" && mark.t > t).map((mark) => mark.id)).size} whole={whole} run={run} series={series.data?.n ?? 0} onMove={move} onRecord={(rec) => url.set({ rec })} />
      </div>
      {url.get("rec") && <RecordDrawer archive={archive} at={at.data} run={run} t={iso(t)} />}
    </>
  );
}

/** A value once it has stood still for a moment. */
function useSettled(value: number): number {
  const [held, setHeld] = useState(value);
  useEffect(() => {
    const waiting = setTimeout(() => setHeld(value), 180);
    return () => clearTimeout(waiting);
  }, [value]);
  return held;
}

/** The versions of a text that differ from the one before; the first is the first with a text. */
function versionsOf(wordings: MarketAt["wordings"]): MarketAt["wordings"] {
  const text = (one: MarketAt["wordings"][number] | undefined) => (one ? `${one.question}\n${one.rules ?? one.background ?? ""}` : "");
  return wordings.filter((one) => one.question !== null || one.rules).filter((one, i, all) => text(one) !== text(all[i - 1]));
}

function marksOf(evidence: EvidenceRow[], whole: MarketAt, documents: Document[]): Mark[] {
  const shown = new Map<string, Mark>();
  for (const row of evidence) {
    shown.set(row.document_id, { t: ms(row.known_at), kind: "shown", id: row.document_id, label: row.text.slice(0, 90) });
  }
  const rules = versionsOf(whole.wordings).map((version, i): Mark => ({ t: ms(version.known_at), kind: "rules", id: String(i + 1), label: `Text, version ${i + 1}` }));
  const end = whole.resolution ? ms(whole.resolution.known_at) : Infinity;
  const held = documents
    .filter((one) => !shown.has(one.id) && ms(one.known_at) <= end)
    .map((one): Mark => ({ t: ms(one.known_at), kind: "held", id: one.id, label: one.title || one.id }));
  return [...shown.values(), ...held, ...rules];
}

function useKeys(t: number, range: [number, number], steps: Step[], move: (t: number, drop: boolean) => void) {
  const held = useRef({ t, range, steps, move });
  held.current = { t, range, steps, move };
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) || event.ctrlKey || event.metaKey || document.querySelector("dialog[open]")) return;
      const { t, range, steps, move } = held.current;
      const next = steps.find((step) => step.t > t)?.t;
      const before = steps.filter((step) => step.t < t).at(-1)?.t;
      const wanted = { j: next, k: before }[event.key];
      if (wanted !== undefined) {
        event.preventDefault();
        move(Math.min(range[1], wanted), true);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
}

function Switch({ names, name, onChoose }: { names: string[]; name: string | null; onChoose: (name: string) => void }) {
  const first = names.slice(0, 3);
  const rest = names.slice(3);
  return (
    <span className="flex flex-wrap items-center gap-2">
      <span className="segments" role="group" aria-label="Forecaster">
        {first.map((one) => (
          <button key={one} type="button" aria-pressed={one === name} onClick={() => onChoose(one)}>{one}</button>
        ))}
      </span>
      {rest.length > 0 && (
        <select className="h-7 rounded-md border border-line-2 bg-surface px-2 text-12 text-ink" aria-label="More forecasters" value={rest.includes(name ?? "") ? (name ?? "") : ""} onChange={(event) => event.target.value && onChoose(event.target.value)}>
          <option value="">{rest.length} more</option>
          {rest.map((one) => <option key={one}>{one}</option>)}
        </select>
      )}
    </span>
  );
}

function Scrubber({ t, range, onMove }: { t: number; range: [number, number]; onMove: (t: number, drop: boolean) => void }) {
  const share = (100 * (t - range[0])) / (range[1] - range[0]);
  const step = (by: number) => onMove(Math.min(range[1], Math.max(range[0], t + by)), true);
  return (
    <div className="pr-[16px] pl-[48px]">
      <input
        type="range"
        className="scrub"
        min={range[0]}
        max={range[1]}
        step={1000}
        value={Math.min(range[1], Math.max(range[0], t))}
        aria-label="Instant t"
        aria-valuetext={instant(t)}
        style={{ "--at": `${Math.min(100, Math.max(0, share))}%` } as React.CSSProperties}
        onChange={(event) => onMove(Number(event.target.value), false)}
        onPointerUp={(event) => onMove(Number(event.currentTarget.value), true)}
        onKeyDown={(event) => {
          const by = { ArrowLeft: -HOUR, ArrowRight: HOUR, ArrowDown: -HOUR, ArrowUp: HOUR, PageUp: DAY, PageDown: -DAY }[event.key];
          const edge = { Home: range[0], End: range[1] }[event.key];
          if (by === undefined && edge === undefined) return;
          event.preventDefault();
          if (by !== undefined) step(by);
          else onMove(edge!, true);
        }}
      />
    </div>
  );
}

function LeakBadge({ run, onOpen }: { run: RunWhole | undefined; onOpen: () => void }) {
  const leaks = run?.scores?.leaks;
  if (!leaks || leaks.from_file) return null;
  const clean = leaks.admitted_after_t === 0;
  return (
    <button type="button" className={`state underline decoration-dotted underline-offset-4 ${clean ? "text-beats" : "text-worse"}`} onClick={onOpen}>
      <Icon name={clean ? "check" : "bang"} /> {leaks.admitted_after_t} rows after t
    </button>
  );
}

function TableOfPrices({ prices }: { prices: { t: number; p: number }[] }) {
  return (
    <details className="mt-3">
      <summary className="btn btn-bare !inline-flex"><Icon name="table" /> Show as table</summary>
      <div className="mt-2 max-h-64 overflow-auto" tabIndex={0} role="region" aria-label="Prices as a table">
        <table className="data">
          <thead><tr><th scope="col">Known at</th><th scope="col" className="num">Price of YES</th></tr></thead>
          <tbody>
            {prices.slice(0, 1500).map((one, i) => <tr key={i}><td>{instant(one.t)}</td><td className="num">{fixed(one.p, 3)}</td></tr>)}
          </tbody>
        </table>
      </div>
    </details>
  );
}

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
function See({ at, busy, t, decided, why, steps, name, evidence, later, whole, run, series, onMove, onRecord }: SeeProps) {
  const shown = decided ? evidence.filter((row) => ms(row.time) === decided.t) : (at?.context.search_snippets ?? []).map((s) => ({ document_id: s.id, text: s.text, known_at: s.timestamp }));
  const n = decided ? steps.indexOf(decided) + 1 : 0;
  const next = steps.find((step) => step.t > t);
  const before = steps.filter((step) => step.t < t).at(-1);
  const price = at?.odds?.price ?? null;
  const versions = versionsOf(at?.wordings ?? []);
  const wording = versions.at(-1);
  const earlier = steps.filter((step) => decided && step.t < decided.t);
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
      <section className="grid gap-1.5 border-b border-line px-5 py-4">
        <h3 className="flex justify-between">It could see <span className="note !font-normal">{evidence.length ? counted(known, "document") + " known by then" : ""}</span></h3>
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
        <h3 className="mt-2 flex justify-between">{decided ? "Shown to it" : "It would be shown"} <span className="note !font-normal">{counted(shown.length, "document")}</span></h3>
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
      {why && (
        <section className="border-b border-line px-5 py-4">
          <h3>What it gave as its reason</h3>
          <p className="text-ink-2">“{why}”</p>
        </section>
      )}
      {earlier.length > 0 && (
        <section className="border-b border-line px-5 py-4">
          <h3 className="flex justify-between">Earlier forecasts of {name} <span className="note !font-normal">{count(earlier.length)}</span></h3>
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

interface ForecastsProps {
  className: string;
  run: RunWhole;
  steps: Step[];
  evidence: EvidenceRow[];
  outcome: number | null;
  name: string;
  t: number;
  id: string;
  onChoose: (t: number) => void;
}

function Forecasts({ className, run, steps, evidence, outcome, name, t, id, onChoose }: ForecastsProps) {
  const error = (p: number | null) => (p === null || outcome === null ? null : (p - outcome) ** 2);
  const gain = (step: Step) => (step.market === null || outcome === null ? null : error(step.market)! - error(step.p)!);
  const current = steps.filter((step) => step.t <= t).at(-1);
  const columns: Column<Step>[] = [
    { key: "t", head: "Time t", cell: (step) => <button type="button" className="tnum text-left hover:underline" onClick={() => onChoose(step.t)}>{instant(step.t)}</button> },
    { key: "market", head: "Market", num: true, label: "Market", cell: (step) => fixed(step.market, 3) },
    { key: "p", head: "Forecast", num: true, label: "Forecast", cell: (step) => <b className="text-accent">{fixed(step.p, 3)}</b> },
    { key: "difference", head: "Difference", num: true, skip: true, cell: (step) => signed(step.market === null ? null : step.p - step.market, 3) },
    { key: "em", head: "Squared error", small: "market", num: true, skip: true, cell: (step) => fixed(error(step.market)) },
    { key: "ef", head: "Squared error", small: "forecast", num: true, skip: true, cell: (step) => fixed(error(step.p)) },
    {
      key: "gain", head: "Gain", small: "above 0: nearer than the market", num: true, label: "Gain",
      cell: (step) => {
        const value = gain(step);
        if (value === null) return "–";
        const near = Math.abs(value) < 5e-5;
        return <span className={near ? "" : value > 0 ? "text-beats" : "text-worse"}>{near ? "" : value > 0 ? "▲ " : "▼ "}{signed(value)}</span>;
      },
    },
    { key: "n", head: "Documents", small: "shown", num: true, skip: true, cell: (step) => count(evidence.filter((row) => ms(row.time) === step.t).length) },
  ];
  const gains = steps.map(gain).filter((v): v is number => v !== null);
  const mean = (of: (step: Step) => number | null) => {
    const found = steps.map(of).filter((v): v is number => v !== null);
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
  };
  return (
    <Panel
      className={className}
      title={`Forecasts of ${name}`}
      hint="choose a row to go to that instant; j and k move"
      right={<Exports path={`/api/runs/${run.run_id}/forecasts?market_id=${encodeURIComponent(id)}&forecaster=${encodeURIComponent(name)}`} name={`${id.replace(":", "-")}-forecasts`} />}
      pad={false}
    >
      <DataTable
        caption={`Forecasts of ${name}`}
        columns={columns}
        rows={steps}
        id={(step) => String(step.t)}
        marks={(step) => ({ "data-after": step.t > t ? "true" : undefined, "aria-selected": step === current ? true : undefined })}
        cards
        foot={
          gains.length > 0 && (
            <tr className="max-[720px]:hidden">
              <td className="font-semibold">Mean of {steps.length}</td>
              <td /><td /><td />
              <td className="num">{fixed(mean((s) => error(s.market)))}</td>
              <td className="num">{fixed(mean((s) => error(s.p)))}</td>
              <td className="num font-semibold">{signed(mean(gain))}</td>
              <td />
            </tr>
          )
        }
      />
    </Panel>
  );
}
