"use client";
/** One market: what a forecaster knew at each moment, what it said, and how good that was. */
import { later } from "@/lib/lazy";
import Link from "@/parts/link";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { said, useGet } from "@/lib/api";
import { board, leader } from "@/lib/board";
import { count, counted, instant, iso, ms } from "@/lib/format";
import { useRun } from "@/lib/run";
import type { Document, EvidenceRow, ForecastRow, MarketAt, RunWhole } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { versionsOf } from "@/lib/wordings";
import type { Mark, Step } from "@/charts/market-chart";
import { LeakBadge } from "@/parts/leak-badge";
import { ScopeBar } from "@/parts/scope";
import { Main } from "@/parts/shell";
import { Exports, Outcome, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";

const chart = () => import("@/charts/market-chart");
const MarketChart = later(() => chart().then((found) => found.default), 344);
const See = later(() => import("@/parts/seen").then((found) => found.See), 560);
const Forecasts = later(() => import("@/parts/forecasts").then((found) => found.Forecasts), 300);
const TableOfPrices = later(() => import("@/parts/forecasts").then((found) => found.TableOfPrices));
const RecordDrawer = later(() => import("@/parts/drawer").then((found) => found.RecordDrawer));
/** Documents that a simulated world plants: each says how a market ended, from the instant it did. */
const CANARY = "canary-";
const [HOUR, DAY] = [3_600_000, 86_400_000];

export function Market() {
  const url = useUrl();
  const chosen = useRun();
  const home = useGet("/api/workspace", {});
  useEffect(() => void chart().catch(() => null), []); // It comes while the prices do.
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
    const ranked = run ? [leader(run)?.forecaster, ...board(run).map((row) => row.forecaster)] : [];
    return [...new Set([...ranked.filter((one): one is string => one !== undefined && found.includes(one)), ...found])];
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
              {marks.some((m) => m.kind === "held") && <span><i className="inline-block size-2 rounded-full border-[1.5px] border-ink-2" />a document on the same words that was never shown</span>}
              {marks.some((m) => m.kind === "canary") && <span><svg width="10" height="10" viewBox="0 0 10 10" aria-hidden="true"><path d="M5 1 9.5 9h-9z" fill="none" stroke="var(--warn)" strokeWidth="1.6" /></svg>canary: a planted document that says how a market ended; whoever shows it before its time has a leak</span>}
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

function marksOf(evidence: EvidenceRow[], whole: MarketAt, documents: Document[]): Mark[] {
  const shown = new Map<string, Mark>();
  for (const row of evidence) {
    shown.set(row.document_id, { t: ms(row.known_at), kind: "shown", id: row.document_id, label: row.text.slice(0, 90) });
  }
  const rules = versionsOf(whole.wordings).map((version, i): Mark => ({ t: ms(version.known_at), kind: "rules", id: String(i + 1), label: `Text, version ${i + 1}` }));
  const end = whole.resolution ? ms(whole.resolution.known_at) : Infinity;
  const held = documents
    .filter((one) => !shown.has(one.id) && ms(one.known_at) <= end)
    .map((one): Mark => ({ t: ms(one.known_at), kind: one.id.startsWith(CANARY) ? "canary" : "held", id: one.id, label: one.title || one.id }));
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
