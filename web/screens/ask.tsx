"use client";
/** A question, who looks for what, and the answer, each sentence with the record it rests on. */
import Link from "@/parts/link";
import { useEffect, useMemo, useState } from "react";
import { post, said, useGet } from "@/lib/api";
import { counted, instant } from "@/lib/format";
import { useEvents } from "@/lib/live";
import { useWorld } from "@/lib/run";
import type { AnswerWire, Citation } from "@/lib/schema";
import { tell } from "@/lib/told";
import { to, useUrl } from "@/lib/url";
import { Graph } from "@/charts/graph";
import { Dialog } from "@/parts/dialog";
import { Main } from "@/parts/shell";
import { Command, CopyLink, Panel, RunState, WorldBadge } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";

export function Ask() {
  const url = useUrl();
  const home = useGet("/api/workspace", {});
  const run = url.get("run");
  if (home.error) return <Main><Failed error={home.error} retry={() => void home.mutate()} what="The page" /></Main>;
  if (!home.data) return <Main busy><Loading heights={[120, 300]} /></Main>;
  if (!home.data.archives.length) {
    return <Main><Empty title="No archive to ask" text="Questions are answered from records of an archive, as of an instant that you choose." command="beforehand demo" /></Main>;
  }
  return (
    <Main>
      <Form archives={home.data.archives} archive={url.get("archive") ?? home.data.default_archive ?? home.data.archives[0]!} may={home.data.may.includes("start")} onStart={(id) => url.set({ run: id })} asked={run} />
      {run ? <Told id={run} /> : <Before />}
    </Main>
  );
}

function Form({ archives, archive, may, onStart, asked }: { archives: string[]; archive: string; may: boolean; onStart: (run: string) => void; asked: string | null }) {
  const known = useGet("/api/runs/{run_id}", asked ? { params: { path: { run_id: asked } } } : null);
  const [question, setQuestion] = useState("");
  const [where, setWhere] = useState(archive);
  const [asOf, setAsOf] = useState("");
  const [model, setModel] = useState("");
  const [budget, setBudget] = useState("");
  const [wrong, setWrong] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const answered = known.data?.answer;
  useEffect(() => {
    if (answered) setQuestion((held) => held || answered.question);
  }, [answered]);
  return (
    <form
      className="grid gap-3"
      onSubmit={async (event) => {
        event.preventDefault();
        setBusy(true);
        setWrong(null);
        try {
          const begun = await post("/api/asks", {
            key: crypto.randomUUID(),
            body: {
              question, archive: where, as_of: asOf ? instantOf(asOf) : null, model: model || null, review: false,
              limits: { timeout: 60, in_flight: "resend", max_cost: budget ? Number(budget) : null },
            },
          });
          if ("run_id" in begun) onStart(begun.run_id);
        } catch (error) {
          setWrong(said(error));
        }
        setBusy(false);
      }}
    >
      <h1 className={answered ? "sr" : ""} data-ready="true">Ask</h1>
      {!answered && <p className="lede !mt-0">An answer from records known by a date that you choose, and nothing later: where prices stood, how they moved, how it ended, what was reported. It gives what was reported, not causes. Each sentence names its record.</p>}
      <label className="field">
        Question
        <textarea className="input text-[1rem]" rows={2} required maxLength={2000} value={question} onChange={(e) => setQuestion(e.target.value)} placeholder="What is priced in for …?" />
      </label>
      {!answered && <Examples archive={where} onChoose={setQuestion} />}
      <div className="grid items-end gap-3 min-[720px]:grid-cols-[1fr_1fr_1fr_1fr_auto]">
        <label className="field">Known by <span>UTC; empty: the end</span><input className="input" type="datetime-local" value={asOf} onChange={(e) => setAsOf(e.target.value)} /></label>
        <label className="field">Archive<select className="input" value={where} onChange={(e) => setWhere(e.target.value)}>{archives.map((one) => <option key={one}>{one}</option>)}</select></label>
        <label className="field">Model <span>plans and words it</span><input className="input" list="models" value={model} onChange={(e) => setModel(e.target.value)} placeholder="none: by rules" /></label>
        <label className="field">Budget, US $ <span>for paid models</span><input className="input" type="number" min="0" step="0.01" value={budget} onChange={(e) => setBudget(e.target.value)} /></label>
        <datalist id="models"><option value="scripted" /><option value="local" /></datalist>
        <button className="btn btn-main !h-[34px]" disabled={busy || !may}>{busy ? "Asking…" : "Ask"}</button>
      </div>
      {!may && <p className="note">This token may not start runs.</p>}
      {wrong && <p role="alert" className="text-worse">{wrong}</p>}
    </form>
  );
}

/** Questions about markets that the archive has, to start from. */
function Examples({ archive, onChoose }: { archive: string; onChoose: (question: string) => void }) {
  const markets = useGet("/api/archives/{archive}/markets", { params: { path: { archive }, query: { limit: 3 } } });
  const titles = markets.data?.items.flatMap((row) => (row.question ? [row.question.replace(/^Will (the )?|[?]$/g, "")] : [])) ?? [];
  return (
    <p className="flex flex-wrap gap-2">
      {titles.map((title, i) => {
        const text = i === 1 ? `How did the price of “${title}” move?` : `What is priced in for “${title}”?`;
        return <button key={title} type="button" className="chip !h-auto !py-1.5 text-left !whitespace-normal !leading-snug" onClick={() => onChoose(text)}>{text}</button>;
      })}
    </p>
  );
}

const instantOf = (local: string) => new Date(`${local}Z`).toISOString();

function Before() {
  const list = useGet("/api/runs", { params: { query: { kind: "ask", limit: 10 } } });
  const rows = list.data?.items ?? [];
  if (!rows.length) return <Command text='beforehand ask "What is priced in for the Avaria reservoir index?"' />;
  return (
    <Panel title="Asked before">
      <ul>{rows.map((run) => <li key={run.run_id} className="flex flex-wrap justify-between gap-x-4 border-t border-line py-2 first:border-t-0"><Asked id={run.run_id} /><span className="note">{instant(run.created_at)}</span></li>)}</ul>
    </Panel>
  );
}

function Asked({ id }: { id: string }) {
  const { data } = useGet("/api/runs/{run_id}", { params: { path: { run_id: id } } });
  return <Link href={to("/ask/", { run: id })}>{data?.answer?.question ?? id}</Link>;
}

function Told({ id }: { id: string }) {
  const live = useEvents(id);
  const told = useMemo(() => tell(live.events), [live.events]);
  const run = useGet("/api/runs/{run_id}", { params: { path: { run_id: id } } });
  const steps = useGet("/api/runs/{run_id}/steps", { params: { path: { run_id: id }, query: { limit: 200 } } });
  const world = useWorld(run.data);
  const { mutate: again } = run;
  const { mutate: steps_ } = steps;
  const moved = live.events.filter((event) => event.what === "step ended" || event.what === "run ended").length;
  useEffect(() => {
    void again();
    void steps_();
  }, [moved, again, steps_]);
  const [open, setOpen] = useState<Citation | null>(null);
  if (run.error) return <Failed error={run.error} retry={() => void run.mutate()} what="The answer" />;
  if (!run.data) return <Loading heights={[200, 200]} />;
  const answer = run.data.answer;
  const nodes = (steps.data?.items ?? []).map((step) => ({
    id: step.id, title: step.action, deps: step.deps,
    state: told.finished.has(step.id) ? "success" : told.running.has(step.id) && !told.ended ? "running" : step.status,
  }));
  return (
    <div className="grid items-start gap-6 min-[1100px]:grid-cols-[minmax(0,1fr)_400px]">
      <div className="grid min-w-0 gap-6">
        <Panel title="Answer" hint={answer ? `only records known by ${instant(answer.as_of)}` : undefined} right={<><WorldBadge world={world} short /><CopyLink /></>}>
          {answer ? (
            <Text answer={answer} onOpen={setOpen} />
          ) : (
            <p role="status" className="flex items-center gap-3"><RunState value={run.data.status} /> {run.data.status === "running" ? "The agents are at work." : (run.data.reason ?? "")}</p>
          )}
          {answer && answer.not_found.length > 0 && <p className="note mt-3">Not found: {answer.not_found.join("; ")}.</p>}
          {answer && <p className="note mt-3">Planned by {answer.planned_by === "rules" ? "rules" : `the model ${answer.planned_by}`}. {answer.note}</p>}
        </Panel>
        <Panel title="Plan" hint={counted(nodes.length, "step")}>{nodes.length ? <Graph nodes={nodes} /> : <p className="text-ink-2">It is being made.</p>}</Panel>
      </div>
      <div className="grid min-w-0 gap-6">
        <Panel title="Records cited" hint={answer ? String(answer.citations.length) : undefined}>
          {answer?.citations.length ? (
            <ol>{answer.citations.map((one) => (
              <li key={one.n} className="grid grid-cols-[auto_1fr] gap-x-2 border-t border-line py-2 first:border-t-0" id={`cite-${one.n}`}>
                <span className="tag">{one.n}</span>
                <span className="min-w-0">
                  <button type="button" className="text-left text-accent underline underline-offset-2" onClick={() => setOpen(one)}>{one.title ?? one.id}</button>
                  <span className="note block font-mono !text-11">{one.kind} {one.id}</span>
                </span>
              </li>
            ))}</ol>
          ) : <p className="text-ink-2">{answer ? "None: nothing on record fits." : "–"}</p>}
        </Panel>
        <Panel title="Files of the agents">
          <ul className="grid gap-1 font-mono text-12">
            {[...new Set(answer?.citations.map((one) => one.file) ?? [])].map((file) => (
              <li key={file}><button type="button" className="text-left [overflow-wrap:anywhere] text-accent underline" onClick={() => setOpen(answer!.citations.find((one) => one.file === file)!)}>{file.replace(/^workspace\/agents\//, "")}</button></li>
            ))}
          </ul>
          <p className="note mt-2">Agents talk through files on the bus alone. <Link href={to("/run/", { run: id })}>The run and its files</Link></p>
        </Panel>
      </div>
      <Dialog open={open !== null} onClose={() => setOpen(null)} label="Record" className="drawer">
        {open && answer && <Record one={open} answer={answer} onClose={() => setOpen(null)} />}
      </Dialog>
    </div>
  );
}

/** The answer's lines; each number in brackets opens its record. */
function Text({ answer, onOpen }: { answer: AnswerWire; onOpen: (one: Citation) => void }) {
  return (
    <div className="grid max-w-[78ch] gap-2 text-[0.9375rem] leading-relaxed" data-answer="true">
      {answer.answer.split("\n").filter(Boolean).map((line, i) => (
        <p key={i} className={line.startsWith("- ") ? "pl-4 -indent-4" : ""}>
          {line.replace(/^- /, "•  ").split(/(\[\d+\])/).map((part, j) => {
            const one = /^\[\d+\]$/.test(part) ? answer.citations.find((c) => c.n === Number(part.slice(1, -1))) : undefined;
            return one ? <button key={j} type="button" className="mx-0.5 rounded-sm bg-accent-soft px-1.5 text-12 font-semibold text-accent" aria-label={`Record ${one.n}: ${one.title ?? one.id}`} onClick={() => onOpen(one)}>{one.n}</button> : part;
          })}
        </p>
      ))}
    </div>
  );
}

function Record({ one, answer, onClose }: { one: Citation; answer: AnswerWire; onClose: () => void }) {
  const match = /agents\/([^/]+)\/out\/([^/]+)$/.exec(one.file);
  const file = useGet("/api/bus/{agent}/out/{name}", match ? { params: { path: { agent: match[1]!, name: match[2]! } } } : null);
  const rows = (file.data?.data ?? []) as Record<string, unknown>[];
  const mine = rows.filter((row) => [row.id, row.market_id, row.ticker, row.url, row.permalink].includes(one.id));
  return (
    <>
      <div className="mb-3 flex items-center justify-between"><span className="note font-semibold">Record {one.n}</span><button type="button" className="btn btn-bare" onClick={onClose}>Close</button></div>
      <h2 className="!text-20 !leading-tight">{one.title ?? one.id}</h2>
      <p className="note mb-3">{one.kind} <code>{one.id}</code>, as of {instant(answer.as_of)}</p>
      {/market|price/.test(one.kind) && <p className="mb-3"><Link className="btn" href={to("/market/", { id: one.id, t: answer.as_of })}>Open the market at that instant</Link></p>}
      <p className="note">From the agent’s file <code>{one.file.replace(/^workspace\/agents\//, "")}</code>:</p>
      {file.error ? <p>{said(file.error)}</p> : <pre className="code mt-2 max-h-[60vh] !whitespace-pre-wrap border-t border-line pt-2 [overflow-wrap:anywhere]">{file.data ? JSON.stringify(mine.length ? mine : rows.slice(0, 20), null, 2) : "…"}</pre>}
    </>
  );
}
