"use client";
/** How a model came to one decision: what it was told, what it wrote, what that printed. */
import Link from "@/parts/link";
import { useMemo } from "react";
import { problemOf, useGet } from "@/lib/api";
import { bytes, count, counted, dollars, fixed, instant, shortId, span } from "@/lib/format";
import { later } from "@/lib/lazy";
import { useRun } from "@/lib/run";
import type { ForecastRow, RunWhole, TraceWire, WholeTrace } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { RunScreen } from "@/parts/scope";
import { Facts, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";

const Context = later(() => import("@/parts/context").then((found) => found.Context), 300);

export function Trace() {
  const chosen = useRun();
  return (
    <RunScreen chosen={chosen} what="The trace" heights={[90, 560]} scored={false} path={(id) => `/api/runs/${id}/traces`}>
      {(run) => <Of run={run} />}
    </RunScreen>
  );
}

function Of({ run }: { run: RunWhole }) {
  const url = useUrl();
  const [id, f, t] = [url.get("id"), url.get("f"), url.get("t")];
  const first = useGet("/api/runs/{run_id}/traces", id && f && t ? null : { params: { path: { run_id: run.run_id }, query: { limit: 1, forecaster: f ?? undefined } } });
  const one = first.data?.items[0];
  const asked = id && f && t ? { id, f, t } : one ? { id: one.market_id, f: one.model_id.replace(/^baseline:/, ""), t: one.time ?? "" } : null;
  if (first.error && problemOf(first.error).status !== 404) return <Failed error={first.error} retry={() => void first.mutate()} what="The traces" />;
  if (!asked) {
    return first.isLoading ? (
      <Loading heights={[90, 560]} />
    ) : (
      <Empty title="No forecaster here wrote code" text="Baselines and files of probabilities have no trace: only models do.">
        <Link className="btn" href={to("/leaderboard/", { run: run.run_id })}>Leaderboard</Link>
      </Empty>
    );
  }
  return <Decision run={run} {...asked} />;
}

function Decision({ run, id, f, t }: { run: RunWhole; id: string; f: string; t: string }) {
  const url = useUrl();
  const path = { run_id: run.run_id };
  const found = useGet("/api/runs/{run_id}/trace", { params: { path, query: { market_id: id, time: t, forecaster: f } } }, { keepPreviousData: true });
  const forecasts = useGet("/api/runs/{run_id}/forecasts", { params: { path, query: { market_id: id, limit: 1000 } } });
  const rows = forecasts.data?.items ?? [];
  const mine = rows.find((row) => row.time === t && row.forecaster === f);
  if (found.error) return <Failed error={found.error} retry={() => void found.mutate()} what="The trace" />;
  if (!found.data) return <Loading heights={[90, 560]} />;
  const trace = found.data;
  const last = trace.traces.at(-1);
  const plain = mine?.mode === "baseline";
  const nearer = mine && typeof mine.outcome === "number" && typeof mine.market === "number" ? Math.abs(mine.probability - mine.outcome) - Math.abs(mine.market - mine.outcome) : null;
  return (
    <>
      <Title
        crumb={<><Link href={to("/run/", { run: run.run_id })}>{run.run_id}</Link> / <Link href={to("/market/", { run: run.run_id, id: trace.market_id, f, t })}>{shortId(trace.market_id)}</Link> / {instant(t)}</>}
        lede={
          <>
            {plain ? "A function of what was known at t: nobody else was asked." : !last ? "It wrote no code; what it gave as its reason stands under Decision." : last.arm === "code" ? "Its own program ran, and its answer was used: no fallback was needed." : trace.traces.length > 1 ? "Its program gave no answer, so it was asked directly." : "It was asked directly."}
            {nearer !== null && ` The market ended ${mine!.outcome === 1 ? "YES" : mine!.outcome === 0 ? "NO" : `at ${mine!.outcome}`}, so this forecast was ${Math.abs(nearer) < 5e-4 ? "as far off as" : nearer > 0 ? "farther off than" : "nearer than"} the market.`}
          </>
        }
      >
        {f} said {fixed(mine?.probability, 3)}{typeof mine?.market === "number" ? `; the market stood at ${fixed(mine.market, 3)}` : ""}
      </Title>
      <div className="grid items-start gap-6 min-[1180px]:grid-cols-[250px_minmax(0,1fr)_270px]">
        <Tree run={run} rows={rows} trace={trace} f={f} t={t} />
        <Contents trace={trace} tab={url.get("tab")} onTab={(tab) => url.set({ tab })} />
        <div className="grid gap-6 min-[720px]:max-[1180px]:grid-cols-3">
          <Panel title="Decision">
            <p className="tnum mb-2 text-20"><b className="font-semibold">{fixed(mine?.probability, 3)}</b> <span className="text-14 text-ink-2">probability of YES</span></p>
            <Facts rows={[["decision", mine ? (mine.probability >= 0.5 ? "YES" : "NO") : "–"], ["confidence", fixed(mine?.confidence, 3)], ["how", mine?.mode ?? "–"], ...(plain ? [] : [["fallback", last?.fallback_reason ? last.fallback_reason : "not needed"] as [string, string]])]} />
            {mine?.rationale && <p className="mt-2 text-ink-2">“{mine.rationale}”</p>}
          </Panel>
          {trace.traces.some((one) => one.code) && (
            <Panel title="Sandbox">
              <Facts rows={[["engine", trace.traces.find((one) => one.engine)?.engine ?? "–"], ["time limit", span(trace.limits.seconds)], ["memory limit", bytes(trace.limits.memory)], ["output limit", bytes(trace.limits.output)], ["network, files", "none"]]} />
              <p className="mt-3 flex flex-wrap gap-1">{(trace.traces.find((one) => one.layers)?.layers ?? []).map((layer) => <span key={layer} className="tag">{layer}</span>)}</p>
            </Panel>
          )}
          {!plain && <Panel title={counted(trace.calls.length, "call")}>
            {trace.calls.length ? trace.calls.map((call, i) => (
              <Facts key={i} rows={[["provider", call.provider], ["tokens", count(call.tokens)], ["cost", dollars(call.cost)], ["took", span(call.latency_ms === null ? null : call.latency_ms / 1000)], ["attempts", count(call.attempts)], ["state", call.state]]} />
            )) : <p className="text-ink-2">None on record.</p>}
          </Panel>}
        </div>
      </div>
    </>
  );
}

function Tree({ run, rows, trace, f, t }: { run: RunWhole; rows: ForecastRow[]; trace: WholeTrace; f: string; t: string }) {
  const times = useMemo(() => [...new Set(rows.filter((row) => row.forecaster === f).map((row) => row.time))].sort(), [rows, f]);
  const here = rows.filter((row) => row.time === t);
  const link = (name: string, at: string) => to("/trace/", { run: run.run_id, id: trace.market_id, f: name, t: at });
  return (
    <nav aria-label="Forecasts of this market" className="panel max-h-[720px] overflow-y-auto p-3">
      <p className="px-2 py-1 font-medium">{shortId(trace.market_id)} <span className="note float-right">{counted(times.length, "forecast")}</span></p>
      <ul>
        {times.map((at) => (
          <li key={at}>
            <Link aria-current={at === t ? "true" : undefined} className={`tnum flex justify-between rounded-md px-2 py-1 pl-4 !text-ink-2 !no-underline hover:bg-hover ${at === t ? "bg-sel !text-ink" : ""}`} href={link(f, at)}>
              {instant(at)} <span>{fixed(rows.find((row) => row.time === at && row.forecaster === f)?.probability, 3)}</span>
            </Link>
            {at === t && (
              <ul>
                {here.map((row) => (
                  <li key={row.forecaster}>
                    <Link aria-current={row.forecaster === f ? "true" : undefined} className={`tnum flex justify-between rounded-md px-2 py-1 pl-8 !no-underline hover:bg-hover ${row.forecaster === f ? "font-semibold !text-ink" : "!text-ink-2"}`} href={link(row.forecaster ?? "", t)}>
                      {row.forecaster} <span>{fixed(row.probability, 3)}</span>
                    </Link>
                  </li>
                ))}
              </ul>
            )}
          </li>
        ))}
      </ul>
    </nav>
  );
}

function Contents({ trace, tab, onTab }: { trace: WholeTrace; tab: string | null; onTab: (tab: string) => void }) {
  const code = trace.traces.find((one) => one.code);
  const tabs: [string, string][] = [
    ...(trace.prompts.length ? [["prompt", "Prompt"] as [string, string]] : []),
    ...(code ? [["code", "Code"] as [string, string]] : []),
    ...(trace.traces.length ? [["output", "Output"] as [string, string]] : []),
    ["context", "Context"],
  ];
  const held = tabs.some(([key]) => key === tab) ? tab! : code ? "code" : tabs[0]![0];
  return (
    <section className="panel min-w-0">
      <div className="tabs" role="tablist" aria-label="Trace">
        {tabs.map(([key, label], i) => (
          <button
            key={key} id={`tab-${key}`} type="button" role="tab" aria-selected={key === held} aria-controls="trace-panel" tabIndex={key === held ? 0 : -1} onClick={() => onTab(key)}
            onKeyDown={(event) => {
              const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
              if (!step) return;
              const next = tabs[(i + step + tabs.length) % tabs.length]![0];
              onTab(next);
              requestAnimationFrame(() => document.getElementById(`tab-${next}`)?.focus());
            }}
          >
            {label}
          </button>
        ))}
      </div>
      <div id="trace-panel" role="tabpanel" aria-labelledby={`tab-${held}`} tabIndex={0} className="panel-body overflow-x-auto">
        {held === "prompt" && trace.prompts.map((one) => (
          <div key={one.arm} className="mb-4 grid gap-2">
            <p className="note">Told it, before a {one.arm === "code" ? "program" : "direct answer"}: {count(one.instructions.length + one.text.length)} characters, made again from the context on record.</p>
            <pre className="code !whitespace-pre-wrap">{one.instructions}</pre>
            <pre className="code !whitespace-pre-wrap border-t border-line pt-2 [overflow-wrap:anywhere]">{one.text}</pre>
          </div>
        ))}
        {held === "code" && code && (
          <>
            <p className="note mb-2">Written by {trace.forecaster} from the context at t; run in the sandbox, where the clock answers {instant(trace.time)}.</p>
            <Lines text={code.code!} />
            {code.output && <><h2 className="mt-4 mb-1">What it printed</h2><pre className="code !whitespace-pre-wrap" data-output="true">{pretty(code.output)}</pre></>}
          </>
        )}
        {held === "output" && trace.traces.map((one, i) => <Said key={i} one={one} />)}
        {held === "context" && <Context context={trace.context} />}
      </div>
    </section>
  );
}

function Said({ one }: { one: TraceWire }) {
  return (
    <div className="mb-4">
      <h2 className="mb-1">{one.arm === "code" ? "Program" : "Direct answer"}</h2>
      {one.output && <pre className="code !whitespace-pre-wrap">{pretty(one.output)}</pre>}
      {one.answer !== undefined && <pre className="code !whitespace-pre-wrap">{JSON.stringify(one.answer, null, 2)}</pre>}
      {one.error && <p className="text-worse">{one.error}</p>}
    </div>
  );
}

function pretty(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function Lines({ text }: { text: string }) {
  return (
    <ol className="code list-none !overflow-visible">
      {text.replace(/\n$/, "").split("\n").map((line, i) => (
        <li key={i} className="flex gap-4">
          <span className="w-6 shrink-0 text-right text-ink-3 select-none" aria-hidden="true">{i + 1}</span>
          <span className={/^\s*#/.test(line) ? "text-ink-3 italic" : ""}>{line || " "}</span>
        </li>
      ))}
    </ol>
  );
}
