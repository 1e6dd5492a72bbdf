"use client";
/** A backtest from a form. The dry run says what it asks and costs, and what its card would lack. */
import { useRouter } from "next/navigation";
import { useEffect, useMemo, useRef, useState } from "react";
import { post, said, useGet } from "@/lib/api";
import { count, counted, dollars, span } from "@/lib/format";
import type { Backtest, Predicted } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { Icon } from "@/parts/icons";
import { Main } from "@/parts/shell";
import { Command, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";

export function NewRun() {
  const home = useGet("/api/workspace", {});
  return (
    <Main busy={home.isLoading}>
      {home.error ? (
        <Failed error={home.error} retry={() => void home.mutate()} what="The form" />
      ) : !home.data ? (
        <Loading heights={[60, 420]} />
      ) : !home.data.archives.length ? (
        <Empty title="There is no world to walk through" text="A backtest walks the markets of an archive through time. A demo makes a simulated one; recorded markets are imported." command="beforehand demo" />
      ) : (
        <Form archives={home.data.archives} archive={home.data.default_archive ?? home.data.archives[0]!} may={home.data.may.includes("start")} />
      )}
    </Main>
  );
}

const FIELDS = { f: "market,drift", every: "7d", docs: "5", grade: "captured", markets: "", from: "", until: "", budget: "", calls: "", percall: "", name: "" };
type Fields = typeof FIELDS & { archive: string };

/** Baselines that are named with something behind a colon, as always:0.5. */
const WITH_ARGUMENT = ["always", "baseline", "recorded"];

function list(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

function bodyOf(v: Fields): Backtest {
  return {
    archive: v.archive, forecasters: list(v.f), markets: v.markets.trim() ? list(v.markets) : null, every: v.every, evidence: Number(v.docs) || 0,
    grade: v.grade as "captured" | "published", start: v.from || null, end: v.until || null, run_id: v.name || null,
    grid: "aligned", sims: 1, seed: 0, draws: 2000, placebo: 200, fresh: false,
    limits: { timeout: 60, in_flight: "resend", ...(v.budget && { max_cost: Number(v.budget) }), ...(v.calls && { max_calls: Number(v.calls) }), ...(v.percall && { cost_per_call: Number(v.percall) }) },
  } as Backtest;
}

function commandOf(v: Fields): string {
  const parts = ["beforehand backtest run", `--archive data/${v.archive}`, `--forecasters ${list(v.f).join(",")}`, `--every ${v.every}`];
  if (v.docs !== "5") parts.push(`--evidence ${v.docs}`);
  if (v.grade !== "captured") parts.push(`--grade ${v.grade}`);
  if (v.from) parts.push(`--from ${v.from}`);
  if (v.until) parts.push(`--until ${v.until}`);
  if (v.markets.trim()) parts.push(`--markets ${list(v.markets).join(",")}`);
  if (v.budget) parts.push(`--max-cost ${v.budget}`);
  if (v.calls) parts.push(`--max-calls ${v.calls}`);
  if (v.percall) parts.push(`--cost-per-call ${v.percall}`);
  if (v.name) parts.push(`--run-id ${v.name}`);
  return parts.join(" ");
}

function Form({ archives, archive, may }: { archives: string[]; archive: string; may: boolean }) {
  const url = useUrl();
  const router = useRouter();
  const schemes = useGet("/api/forecasters", {});
  const value = useMemo(() => {
    const found: Fields = { ...FIELDS, archive };
    for (const name of Object.keys(found) as (keyof Fields)[]) found[name] = url.get(name) ?? found[name];
    return found;
  }, [url, archive]);
  const set = (name: keyof Fields) => (event: { target: { value: string } }) => url.set({ [name]: event.target.value === { ...FIELDS, archive }[name] ? null : event.target.value }, "replace");
  const dry = useDryRun(value);
  const key = useRef<{ body: string; key: string } | null>(null);
  const [wrong, setWrong] = useState<string | null>(null);
  const [starting, setStarting] = useState(false);
  const start = async () => {
    const body = JSON.stringify(bodyOf(value));
    if (key.current?.body !== body) key.current = { body, key: crypto.randomUUID() };
    setStarting(true);
    setWrong(null);
    try {
      const begun = await post("/api/backtests", { key: key.current.key, body: bodyOf(value) });
      if ("run_id" in begun) router.push(to("/run/", { run: begun.run_id }));
    } catch (error) {
      setWrong(said(error));
    }
    setStarting(false);
  };
  const held = list(value.f);
  const toggle = (name: string) => set("f")({ target: { value: (held.includes(name) ? held.filter((one) => one !== name) : [...held, name]).join(",") } });
  const baselines = (schemes.data?.items ?? []).filter((one) => one.kind === "baseline" && !WITH_ARGUMENT.includes(one.scheme));
  return (
    <>
      <Title lede="Nothing is asked or paid until you press Start. The dry run follows what you choose.">New run</Title>
      <div className="grid items-start gap-6 min-[1000px]:grid-cols-[minmax(0,1fr)_420px]">
        <Panel>
          <form className="grid gap-4" onSubmit={(event) => { event.preventDefault(); if (dry.found) void start(); }}>
            <div>
              <label className="field">Forecasters <span>by commas: baselines, models (openai:…, local), http://…, python:./file.py:name</span><input className="input" value={value.f} onChange={set("f")} required /></label>
              <span className="chips mt-2" role="group" aria-label="Baselines">
                {baselines.map((one) => <button key={one.scheme} type="button" className="chip" aria-pressed={held.includes(one.scheme)} title={one.about} onClick={() => toggle(one.scheme)}>{one.scheme}</button>)}
              </span>
            </div>
            <div className="grid gap-4 min-[720px]:grid-cols-2">
              <label className="field">Archive<select className="input" value={value.archive} onChange={set("archive")}>{archives.map((one) => <option key={one}>{one}</option>)}</select></label>
              <label className="field">One forecast every <span>7d, 6h</span><input className="input" value={value.every} onChange={set("every")} required /></label>
              <label className="field">Documents per forecast <span>0 to 20</span><input className="input" type="number" min="0" max="20" value={value.docs} onChange={set("docs")} /></label>
              <label className="field">Text grade<select className="input" value={value.grade} onChange={set("grade")}><option value="captured">captured: stored by t</option><option value="published">published: dated by t</option></select></label>
              <label className="field">From <span>ISO 8601</span><input className="input" value={value.from} onChange={set("from")} placeholder="the first price" /></label>
              <label className="field">Until<input className="input" value={value.until} onChange={set("until")} placeholder="the end" /></label>
            </div>
            <label className="field">Markets <span>ids by commas; empty: all</span><textarea className="input" rows={2} value={value.markets} onChange={set("markets")} /></label>
            <div className="grid gap-4 min-[720px]:grid-cols-2">
              <label className="field">Budget, US $ <span>the run stops before it is passed</span><input className="input" type="number" min="0" step="0.01" value={value.budget} onChange={set("budget")} placeholder="needed for paid models" /></label>
              <label className="field">Most calls<input className="input" type="number" min="1" step="1" value={value.calls} onChange={set("calls")} placeholder="no limit" /></label>
              <label className="field">Cost of a call, US $ <span>where it is not known</span><input className="input" type="number" min="0" step="any" value={value.percall} onChange={set("percall")} /></label>
              <label className="field">Name of the run<input className="input" value={value.name} onChange={set("name")} placeholder="the time" maxLength={128} /></label>
            </div>
          </form>
        </Panel>
        <Panel title="Dry run" className="min-[1000px]:sticky min-[1000px]:top-[68px]">
          <div aria-live="polite" aria-busy={dry.waiting}>
            {dry.wrong ? <p role="alert" className="text-worse">{dry.wrong}</p> : dry.found ? <Forecast of={dry.found} stale={dry.waiting} /> : <span className="skeleton h-40" />}
          </div>
          {wrong && <p role="alert" className="mt-3 text-worse">{wrong}</p>}
          <div className="mt-4 flex flex-wrap gap-2">
            <button type="button" className="btn btn-main" disabled={!dry.found || dry.waiting || starting || !may} onClick={() => void start()}><Icon name="play" size={10} fill /> {starting ? "Starting…" : "Start"}</button>
          </div>
          {!may && <p className="note mt-2">This token may not start runs.</p>}
          <div className="mt-4"><Command text={commandOf(value)} /></div>
        </Panel>
      </div>
    </>
  );
}

interface Dry {
  found: Predicted | null;
  wrong: string | null;
  waiting: boolean;
}

/** What the server says would happen, asked once typing rests. */
function useDryRun(value: Fields): Dry {
  const [dry, setDry] = useState<Dry>({ found: null, wrong: null, waiting: true });
  const body = JSON.stringify(bodyOf({ ...value, name: "" }));
  useEffect(() => {
    const stop = new AbortController();
    setDry((held) => ({ ...held, waiting: true }));
    const waiting = setTimeout(async () => {
      try {
        const found = await post("/api/backtests", { query: { dry_run: true }, body: JSON.parse(body) as Backtest, signal: stop.signal });
        if (!stop.signal.aborted && "lacks" in found) setDry({ found, wrong: null, waiting: false });
      } catch (error) {
        if (!stop.signal.aborted) setDry({ found: null, wrong: said(error), waiting: false });
      }
    }, 350);
    return () => {
      clearTimeout(waiting);
      stop.abort();
    };
  }, [body]);
  return dry;
}

function Forecast({ of, stale }: { of: Predicted; stale: boolean }) {
  const calls = of.calls.reduce((n, one) => n + one.calls, 0);
  const known = of.calls.every((one) => one.cost !== null);
  const cost = of.calls.reduce((n, one) => n + (one.cost ?? 0), 0);
  return (
    <div className={`grid gap-3 ${stale ? "opacity-60" : ""}`}>
      <dl className="grid grid-cols-3 gap-3">
        {[
          ["forecasts", count(of.forecasts), counted(of.markets, "market")],
          ["steps", count(of.steps), `${counted(of.instants, "instant")}`],
          ["calls", count(calls), !calls ? "nothing to pay" : known ? `about ${dollars(cost)}` : "cost not known"],
        ].map(([key, value, about]) => (
          <div key={key} className="flex flex-col-reverse justify-end" data-dry={key}><dt className="text-12 text-ink-2">{key}, {about}</dt><dd className="tnum text-20 font-semibold">{value}</dd></div>
        ))}
      </dl>
      {of.calls.map((one) => (
        <p key={one.provider} className="note"><b className="font-medium text-ink-2">{one.provider}</b>: {counted(one.calls, "call")}, {one.cost === null ? "cost not known" : dollars(one.cost)} ({one.basis}){one.seconds_a_call ? `, ${span(one.seconds_a_call)} each` : ""}</p>
      ))}
      <h3>Would the result count?</h3>
      {of.lacks.length === 0 ? (
        <p className="state text-beats"><Icon name="check" /> Every bound that is known before is met</p>
      ) : (
        <ul className="grid gap-1">{of.lacks.map((text) => <li key={text} className="flex gap-2 text-warn"><Icon name="bang" /> <span>{text}</span></li>)}</ul>
      )}
      {of.short_markets > 0 && <p className="note">{counted(of.short_markets, "market")} of these hold no instant of the grid: each is asked once and scored apart.</p>}
      {Object.keys(of.left_out).length > 0 && <p className="note">Left out: {Object.entries(of.left_out).map(([why, n]) => `${count(n)} ${why.replaceAll("_", " ")}`).join(", ")}.</p>}
    </div>
  );
}
