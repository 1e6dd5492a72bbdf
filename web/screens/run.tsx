"use client";
/** One run: what was done, what was paid, what happened, as it happens. */
import dynamic from "next/dynamic";
import { patient } from "@/lib/lazy";
import Link from "@/parts/link";
import { useRouter } from "next/navigation";
import { useEffect, useMemo, useRef, useState } from "react";
import { post, said, save, useGet, usePages } from "@/lib/api";
import { bytes, clock, count, counted, dollars, instant, span } from "@/lib/format";
import { useEvents, type Live } from "@/lib/live";
import { useRun } from "@/lib/run";
import type { EventRow, FileRow, RunWhole, StepRow } from "@/lib/schema";
import { tell, type Told } from "@/lib/told";
import { to, useUrl } from "@/lib/url";
import { KINDS, SCORED } from "@/lib/words";
import { Icon } from "@/parts/icons";
import { ScopeBar } from "@/parts/scope";
import { Dialog } from "@/parts/dialog";
import { Main } from "@/parts/shell";
import { Command, Exports, Panel, RunState, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";
import { DataTable, type Column } from "@/parts/table";

const Progress = dynamic(patient(() => import("@/charts/progress")), { ssr: false, loading: () => <span className="skeleton" style={{ height: 190 }} /> });

export function Run() {
  const chosen = useRun(false);
  const { id, run, none, error, retry } = chosen;
  return (
    <>
      {id && <ScopeBar id={id} run={run} scored={false} path={`/api/runs/${id}/forecasts`} />}
      <Main busy={!run && !error && !none}>
        {error ? (
          <Failed error={error} retry={retry} what="The run" />
        ) : none ? (
          <Empty title="Start with a dry run" text="It says what would be asked, what that costs, and what the validity card would lack." command="beforehand backtest run --forecasters market,drift --dry-run">
            <Link className="btn btn-main" href="/new/">New run</Link>
          </Empty>
        ) : !run ? (
          <Loading heights={[70, 92, 260, 300]} label="Loading the run" />
        ) : (
          <Whole run={run} reload={retry} />
        )}
      </Main>
    </>
  );
}

function Whole({ run, reload }: { run: RunWhole; reload: () => void }) {
  const live = useEvents(run.run_id);
  const told = useMemo(() => tell(live.events), [live.events]);
  const again = useRef(reload);
  again.current = reload;
  // How it stands is asked again when it ended or went on, and once all its events are here.
  const over = live.link === "over";
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) again.current();
    begun.current = true;
  }, [told.ended, over]);
  const silent = live.events.length === 0;
  const total = run.total ?? 0;
  const status = live.link === "over" || silent ? run.status : told.ended ? run.status : "running";
  const done = silent ? (run.done ?? 0) : told.finished.size;
  return (
    <>
      <Title lede={<Story run={run} told={told} silent={silent} />}>
        Run {run.run_id} <span className="font-normal text-ink-2">{WORDS[status] ?? status}</span>
      </Title>
      {live.link === "away" && (
        <p role="status" className="flex items-center gap-2 rounded-md bg-warn-soft px-3.5 py-2.5 text-warn" data-away="true">
          <Icon name="bang" /> The server is away: this is how it stood at {clock(new Date(live.since ?? Date.now()).toISOString()).slice(0, 8)}. It is tried again every second; nothing is lost.
        </p>
      )}
      <Counts run={run} told={told} silent={silent} done={done} total={total} />
      <div className="grid items-start gap-6 min-[1100px]:grid-cols-[minmax(0,1fr)_400px]">
        <div className="grid min-w-0 gap-6">
          {told.done.length > 1 && (
            <Panel title="Progress" hint={told.gaps.length ? "shaded: no process was alive" : undefined} right={<span className="note">steps done</span>}>
              <Progress points={told.done} gaps={told.gaps} total={total} />
            </Panel>
          )}
          <Steps run={run} told={told} live={live} />
        </div>
        <div className="grid min-w-0 gap-6">
          <Next run={run} status={status} reload={reload} />
          <Log live={live} />
          <Files run={run} />
        </div>
      </div>
    </>
  );
}

const WORDS: Record<string, string> = { success: "finished", running: "is running", stopped: "was stopped", cancelled: "was cancelled", failed: "failed", unfinished: "has no process", damaged: "is damaged" };

function Story({ run, told, silent }: { run: RunWhole; told: Told; silent: boolean }) {
  const times = (n: number) => (n === 1 ? "once" : n === 2 ? "twice" : `${n} times`);
  return (
    <>
      {KINDS[run.kind ?? ""] ?? run.kind}{run.created_at ? `, started ${instant(run.created_at)}` : ""}
      {run.parent ? <>, forked from <Link href={to("/run/", { run: run.parent })}>{run.parent}</Link></> : ""}. {run.reason ? `${run.reason}. ` : ""}
      {!silent && told.resumed > 0 && `It was resumed ${times(told.resumed)}: ${counted(told.answered, "call was", "calls were")} answered, ${told.repeated ? `${told.repeated} of them asked again` : "and none of them was asked again"}${told.again ? `; ${told.again} in flight when its process ended were sent again under the same key` : ""}.`}
      {silent && "It was made without a journal, so it has no events."}
    </>
  );
}

function Counts({ run, told, silent, done, total }: { run: RunWhole; told: Told; silent: boolean; done: number; total: number }) {
  const calls = silent ? (run.calls ?? 0) : Math.max(told.answered, run.calls ?? 0);
  const cost = Math.max(told.spent, run.cost ?? 0);
  const limit = run.limits?.max_cost;
  const cells: [string, string, string][] = [
    ["done", `${count(done)} of ${count(total)}`, "steps done"],
    ["calls", count(calls), "calls answered"],
    ["resumed", silent ? "–" : count(told.resumed), "times resumed"],
    ["repeated", silent ? "–" : count(told.repeated), "answered calls repeated"],
    ["again", silent ? "–" : count(told.again), "in flight at a kill, sent again"],
    ["spent", dollars(cost), limit ? `spent, of ${dollars(limit)}` : "spent, no limit set"],
  ];
  return (
    <dl className="panel grid grid-cols-2 overflow-hidden min-[720px]:grid-cols-3 min-[1100px]:grid-cols-6">
      {cells.map(([key, value, label]) => (
        <div key={key} className="flex flex-col-reverse justify-end border-r border-b border-line px-5 py-4 last:border-r-0 min-[1100px]:border-b-0" data-count={key}>
          <dt className="text-12 text-ink-2">{label}</dt>
          <dd className="tnum text-20 font-semibold">{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A step's state, from the events where these know more than the list that was fetched. */
function stateOf(step: StepRow, told: Told): string {
  if (told.finished.has(step.id)) return "success";
  if (told.failed.has(step.id)) return "failed";
  if (told.running.has(step.id)) return told.ended ? "waiting" : "running";
  return step.status;
}

const COLORS: Record<string, string> = {
  success: "border-beats bg-[var(--beats-soft)]",
  running: "border-accent bg-accent-soft",
  failed: "border-worse bg-[var(--worse-soft)]",
  waiting: "border-line-2 bg-surface",
};

function Steps({ run, told, live }: { run: RunWhole; told: Told; live: Live }) {
  const url = useUrl();
  const list = usePages("/api/runs/{run_id}/steps", { params: { path: { run_id: run.run_id }, query: { limit: 1000 } } });
  useEffect(() => {
    if (live.link === "over") void list.mutate();
  }, [live.link]);
  const rows = list.rows as StepRow[];
  const groups = useMemo(() => {
    const found = new Map<string, StepRow[]>();
    for (const row of rows) found.set(row.action, [...(found.get(row.action) ?? []), row]);
    return [...found];
  }, [rows]);
  const chosen = url.get("step");
  const states = new Map<string, number>();
  for (const row of rows) states.set(stateOf(row, told), (states.get(stateOf(row, told)) ?? 0) + 1);
  const columns: Column<StepRow>[] = [
    { key: "id", head: "Step", cell: (step) => <code>{step.id}</code> },
    { key: "action", head: "Does", skip: true, cell: (step) => step.action },
    { key: "state", head: "State", cell: (step) => <RunState value={stateOf(step, told)} /> },
    { key: "deps", head: "Waits for", num: true, skip: true, cell: (step) => (step.deps.length > 2 ? counted(step.deps.length, "step") : step.deps.join(", ") || "–") },
    { key: "time", head: "Took", num: true, label: "Took", cell: (step) => span(step.duration_ms === null ? null : step.duration_ms / 1000) },
    { key: "error", head: "Error", wide: true, cell: (step) => step.error && <span className="text-worse">{step.error}</span> },
  ];
  const failing = rows.some((step) => step.error);
  const table = chosen ? rows.filter((step) => step.action === chosen) : rows;
  if (list.error) return <Panel title="Steps"><p>{said(list.error)}</p></Panel>;
  return (
    <Panel title="Steps" hint={counted(list.total ?? rows.length, "step")} pad={false}>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-4 px-5 pb-4 max-[720px]:px-4">
        {groups.map(([action, steps], i) => (
          <div key={action} className="contents">
            {i > 0 && <span className="text-ink-3" aria-hidden="true">→</span>}
            <button type="button" className="grid gap-1.5 rounded-md p-1 text-left hover:bg-hover" aria-pressed={chosen === action} onClick={() => url.set({ step: chosen === action ? null : action })}>
              <span className="note">{action}{steps.length > 1 ? `, ${counted(steps.length, "step")}` : ""}</span>
              <span className="flex max-w-[440px] flex-wrap gap-[3px]">
                {chunks(steps, 200).map((part) => {
                  const state = worst(part.map((step) => stateOf(step, told)));
                  const again = part.some((step) => told.againSteps.has(step.id));
                  return (
                    <span key={part[0]!.id} title={part.length > 1 ? `${part[0]!.id} to ${part.at(-1)!.id}: ${state}` : `${part[0]!.id}: ${state}`} className={`grid size-[18px] place-items-center rounded-[3px] border-[1.5px] ${COLORS[state] ?? COLORS.waiting}`}>
                      {again && <i className="size-1.5 rounded-full bg-warn" />}
                    </span>
                  );
                })}
              </span>
            </button>
          </div>
        ))}
      </div>
      <p className="legend px-5 pb-3 max-[720px]:px-4">
        {["success", "running", "failed", "waiting"].map((state) => (
          <span key={state} data-state={state} data-n={states.get(state) ?? 0}><i className={`inline-block size-3 rounded-[3px] border-[1.5px] ${COLORS[state]}`} />{state === "success" ? "done" : state} {count(states.get(state) ?? 0)}</span>
        ))}
        <span><i className="inline-block size-1.5 rounded-full bg-warn" />a call was sent again</span>
      </p>
      <div className="max-h-[520px] overflow-y-auto border-t border-line">
        <DataTable caption="Steps" columns={failing ? columns : columns.slice(0, 5)} rows={table.slice(0, 400)} id={(step) => step.id} cards />
      </div>
      {table.length > 400 && <p className="note px-5 py-3">The first 400 of {count(table.length)}.</p>}
    </Panel>
  );
}

function chunks<T>(rows: T[], most: number): T[][] {
  const size = Math.ceil(rows.length / most) || 1;
  return Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => rows.slice(i * size, (i + 1) * size));
}

const worst = (states: string[]) => ["failed", "running", "waiting", "success"].find((state) => states.includes(state)) ?? "waiting";

function Log({ live }: { live: Live }) {
  const box = useRef<HTMLOListElement>(null);
  const shown = live.events.slice(-200);
  const last = live.events.at(-1)?.number;
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [last]);
  const link = { opening: "connecting", on: "● live", away: "away", over: "✓ all of it" }[live.link];
  return (
    <Panel title="Log" hint={live.events.length > shown.length ? `the last ${shown.length} of ${count(live.events.length)}` : undefined} right={<span className={`text-12 font-medium ${live.link === "away" ? "text-warn" : "text-beats"}`} data-link={live.link}>{link}</span>}>
      <ol ref={box} tabIndex={0} aria-label="Events" className="max-h-72 overflow-y-auto font-mono text-12" data-last={last}>
        {shown.map((event) => (
          <li key={event.number} data-number={event.number} className="flex gap-2 whitespace-nowrap">
            <span className="text-ink-3">{clock(event.at)}</span>
            <span className={event.what.startsWith("run") ? "font-semibold" : ""}>{event.what}</span>
            <span className="truncate">{event.task_id} <span className="text-ink-3">{details(event)}</span></span>
          </li>
        ))}
        {!shown.length && <li className="text-ink-3">No events.</li>}
      </ol>
    </Panel>
  );
}

function details(event: EventRow): string {
  const d = event.detail as Record<string, string | number | null>;
  const parts: string[] = [];
  if (typeof d.duration_ms === "number") parts.push(span(d.duration_ms / 1000));
  if (typeof d.latency_ms === "number") parts.push(span(d.latency_ms / 1000));
  if (typeof d.cost === "number" && d.cost > 0) parts.push(dollars(d.cost));
  if (d.provider) parts.push(String(d.provider));
  if (d.status && d.status !== "success") parts.push(String(d.status));
  if (d.error) parts.push(String(d.error).slice(0, 80));
  if (d.reason) parts.push(String(d.reason).slice(0, 80));
  return parts.join(", ");
}

function Next({ run, status, reload }: { run: RunWhole; status: string; reload: () => void }) {
  const home = useGet("/api/workspace", {});
  const may = home.data?.may.includes("start") ?? false;
  const [said_, setSaid] = useState<string | null>(null);
  const [forking, setForking] = useState(false);
  const path = { run_id: run.run_id };
  const act = async (what: "cancel" | "resume") => {
    setSaid(null);
    try {
      await post(what === "cancel" ? "/api/runs/{run_id}/cancel" : "/api/runs/{run_id}/resume", { path });
      setSaid(what === "cancel" ? "It ends: calls in flight are recorded, and it can be resumed." : "It goes on where it stood.");
    } catch (error) {
      setSaid(said(error));
    }
    reload();
  };
  const ended = ["stopped", "cancelled", "failed", "unfinished"].includes(status);
  return (
    <Panel title="What next">
      <div className="flex flex-wrap gap-2">
        {run.scores && SCORED.includes(run.kind ?? "") && <Link className="btn btn-main" href={to("/leaderboard/", { run: run.run_id })}>Open leaderboard</Link>}
        {run.answer && <Link className="btn btn-main" href={to("/ask/", { run: run.run_id })}>Read the answer</Link>}
        {status === "running" && may && <button type="button" className="btn" onClick={() => void act("cancel")}><Icon name="stop" fill size={10} /> Stop</button>}
        {ended && may && <button type="button" className="btn btn-main" onClick={() => void act("resume")}><Icon name="play" fill size={10} /> Resume</button>}
        {run.kind === "backtest" && may && status !== "running" && <button type="button" className="btn" onClick={() => setForking(true)}>Fork at t</button>}
        {run.files?.["traces.jsonl"] && <Link className="btn" href={to("/trace/", { run: run.run_id })}>Traces</Link>}
        <Verify run={run} />
      </div>
      {said_ && <p role="status" className="mt-3 text-ink-2">{said_}</p>}
      <div className="mt-3"><Command text={ended ? `beforehand runs resume ${run.run_id}` : `beforehand runs verify ${run.run_id}`} /></div>
      <Dialog open={forking} onClose={() => setForking(false)} label="Fork this run">
        <Fork run={run} onClose={() => setForking(false)} />
      </Dialog>
    </Panel>
  );
}

function Verify({ run }: { run: RunWhole }) {
  const [asked, setAsked] = useState(false);
  const found = useGet("/api/runs/{run_id}/verify", asked ? { params: { path: { run_id: run.run_id } } } : null);
  return (
    <>
      <button type="button" className="btn" onClick={() => setAsked(true)} disabled={found.isLoading}>{found.isLoading ? "Verifying…" : "Verify"}</button>
      <Dialog open={asked && found.data !== undefined} onClose={() => setAsked(false)} label="Verified">
        {found.data && (
          <>
            <h2 className={`mb-2 !text-20 ${found.data.sound ? "text-beats" : "text-worse"}`}>{found.data.sound ? "✓ This run is sound" : "✕ Something does not fit"}</h2>
            <table className="data">
              <thead><tr><th scope="col">Check</th><th scope="col" className="num">Of</th><th scope="col" className="num">Wrong</th></tr></thead>
              <tbody>{found.data.checks.map((check) => <tr key={check.name}><td><b className="font-medium">{check.name}</b><span className="sub">{check.problems[0] ?? check.what}</span></td><td className="num">{count(check.n)}</td><td className={`num ${check.wrong ? "text-worse" : ""}`}>{count(check.wrong)}</td></tr>)}</tbody>
            </table>
          </>
        )}
      </Dialog>
      {found.error !== undefined && asked && <p role="alert" className="w-full text-worse">{said(found.error)}</p>}
    </>
  );
}

function Fork({ run, onClose }: { run: RunWhole; onClose: () => void }) {
  const router = useRouter();
  const [at, setAt] = useState("");
  const [models, setModels] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  return (
    <form
      className="grid gap-3"
      onSubmit={async (event) => {
        event.preventDefault();
        const named = models.split(",").map((one) => one.trim()).filter(Boolean);
        try {
          const begun = await post("/api/runs/{run_id}/fork", { path: { run_id: run.run_id }, key: crypto.randomUUID(), body: { at, models: named, fresh: false } });
          onClose();
          router.push(to("/run/", { run: begun.run_id }));
        } catch (error) {
          setWrong(said(error));
        }
      }}
    >
      <h2>Fork this run</h2>
      <p className="text-ink-2">A new run repeats this one up to an instant from its own answers, at no cost, and goes on from there with other models.</p>
      <label className="field">From this instant on <span>ISO 8601, UTC</span><input className="input" required placeholder="2025-06-01T00:00:00Z" value={at} onChange={(e) => setAt(e.target.value)} /></label>
      <label className="field">Models <span>OLD=NEW, separated by commas</span><input className="input" required placeholder="scripted=local" value={models} onChange={(e) => setModels(e.target.value)} /></label>
      {wrong && <p role="alert" className="text-worse">{wrong}</p>}
      <div className="flex gap-2"><button className="btn btn-main">Fork</button><button type="button" className="btn" onClick={onClose}>Cancel</button></div>
    </form>
  );
}

function Files({ run }: { run: RunWhole }) {
  const list = useGet("/api/runs/{run_id}/files", { params: { path: { run_id: run.run_id }, query: { limit: 200 } } });
  const rows = list.data?.items ?? [];
  const columns: Column<FileRow>[] = [
    { key: "name", head: "File", cell: (file) => {
      const path = `/api/runs/${run.run_id}/files/${file.name}`;
      return file.name.endsWith(".html") ? <a className="font-mono text-12 underline" href={path} target="_blank" rel="noreferrer">{file.name}</a>
        : <a className="font-mono text-12 underline" href={path} onClick={(e) => { e.preventDefault(); void save(path, file.name.split("/").pop()!); }}>{file.name}</a>;
    } },
    { key: "bytes", head: "Size", num: true, cell: (file) => <span className="text-12">{bytes(file.bytes)}</span> },
    { key: "digest", head: "Digest", num: true, cell: (file) => <span className="font-mono text-11 text-ink-3" title={file.digest}>{file.digest.slice(0, 10)}</span> },
  ];
  return (
    <Panel title="Files" hint="digests: SHA-256" right={<Exports path={`/api/runs/${run.run_id}/files`} name={`${run.run_id}-files`} forms={["json"]} />} pad={false}>
      {list.error ? <p className="px-5 pb-4">{said(list.error)}</p> : rows.length ? <DataTable caption="Files" columns={columns} rows={rows} id={(file) => file.name} /> : <p className="note px-5 pb-4">No file yet.</p>}
    </Panel>
  );
}
