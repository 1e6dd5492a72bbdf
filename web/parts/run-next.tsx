"use client";
/** What can be done with a run: stop, resume, fork, verify; its log and its files. */
import { useRouter } from "next/navigation";
import { useEffect, useRef, useState } from "react";
import { post, said, save, useGet } from "@/lib/api";
import { bytes, clock, count, dollars, span } from "@/lib/format";
import type { Live } from "@/lib/live";
import type { EventRow, FileRow, RunWhole } from "@/lib/schema";
import { to } from "@/lib/url";
import { SCORED } from "@/lib/words";
import { Dialog } from "./dialog";
import { Icon } from "./icons";
import Link from "./link";
import { Command, Exports, Panel } from "./small";
import { DataTable, type Column } from "./table";

const UNITS: Record<string, string> = { cost: "US $", calls: "calls", tokens: "tokens" };

export function Next({ run, status, reload }: { run: RunWhole; status: string; reload: () => void }) {
  const home = useGet("/api/workspace", {});
  const may = home.data?.may.includes("start") ?? false;
  const [said_, setSaid] = useState<string | null>(null);
  const [forking, setForking] = useState(false);
  const [limits, setLimits] = useState<Record<string, string>>({});
  const path = { run_id: run.run_id };
  const act = async (what: "cancel" | "resume") => {
    setSaid(null);
    try {
      const raised = Object.fromEntries(Object.entries(limits).filter(([, v]) => v).map(([name, v]) => [`max_${name}`, Number(v)]));
      if (what === "cancel") await post("/api/runs/{run_id}/cancel", { path });
      else await post("/api/runs/{run_id}/resume", { path, body: { fresh: false, ...raised } });
      setSaid(what === "cancel" ? "It ends: calls in flight are recorded, and it can be resumed." : "It goes on where it stood.");
    } catch (error) {
      setSaid(said(error));
    }
    reload();
  };
  const spent = (run.reason ?? "").includes("allows no further call") ? Object.entries(run.limits ?? {}) : [];
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
      {run.changed.length > 0 && (
        <p role="alert" className="mt-3 font-semibold text-worse">Changed after the run: {run.changed.join(", ")}. What is shown of it may be untrue: press Verify.</p>
      )}
      {ended && may && spent.length > 0 && (
        <div className="mt-3 flex flex-wrap gap-3">
          {spent.map(([name, most]) => (
            <label key={name} className="field">
              New limit, {UNITS[name] ?? name}
              <span>in all{name === "cost" && home.data?.budget ? `; ${dollars(home.data.budget.left)} of your budget are left` : ""}</span>
              <input className="input" type="number" min="0" step={name === "cost" ? "0.01" : "1"} value={limits[name] ?? ""} placeholder={String(most)} onChange={(e) => setLimits({ ...limits, [name]: e.target.value })} />
            </label>
          ))}
        </div>
      )}
      {said_ && <p role="status" className="mt-3 text-ink-2">{said_}</p>}
      <div className="mt-3"><Command text={ended ? `beforehand runs resume ${run.run_id}${spent.map(([name, most]) => ` --max-${name} ${limits[name] || most}`).join("")}` : `beforehand runs verify ${run.run_id}`} /></div>
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

export function Files({ run }: { run: RunWhole }) {
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

export function Log({ live, over }: { live: Live; over: boolean }) {
  const box = useRef<HTMLOListElement>(null);
  const shown = live.events.slice(-200);
  const last = live.events.at(-1)?.number;
  useEffect(() => {
    if (box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [last]);
  const link = { opening: "connecting", on: over ? "reading" : "● live", away: "away", over: "✓ all of it" }[live.link];
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
