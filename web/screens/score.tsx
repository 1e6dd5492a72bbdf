"use client";
/** Drop a file of probabilities; see what was left out and why, and get the verdict with its card. */
import { useState } from "react";
import { authorization, said, useGet } from "@/lib/api";
import { count } from "@/lib/format";
import { later } from "@/lib/lazy";
import type { RunWhole } from "@/lib/schema";
import { useUrl } from "@/lib/url";
import { Icon } from "@/parts/icons";
import { ScopeBar } from "@/parts/scope";
import { Main } from "@/parts/shell";
import { Command, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";

const Judged = later(() => import("./judged").then((found) => found.Judged), 600);

export function ScoreMine() {
  const url = useUrl();
  const id = url.get("run");
  const home = useGet("/api/workspace", {});
  const run = useGet("/api/runs/{run_id}", id ? { params: { path: { run_id: id } } } : null);
  const error = home.error ?? run.error;
  return (
    <>
      {id && <ScopeBar id={id} run={run.data} path={`/api/runs/${id}/forecasts`} />}
      <Main busy={run.isLoading}>
        {error ? (
          <Failed error={error} retry={() => void (home.mutate(), run.mutate())} what="The verdict" />
        ) : !home.data || (id && !run.data) ? (
          <Loading heights={[78, 260, 40, 300]} />
        ) : home.data.archives.length === 0 ? (
          <Empty title="There is no world to score against" text="Your probabilities are scored against the markets of an archive. A demo makes a simulated one." command="beforehand demo" />
        ) : run.data?.scores ? (
          <Judged run={run.data}>
            <Drop archives={home.data.archives} archive={run.data.archive ?? home.data.default_archive} may={home.data.may.includes("start")} again onDone={(next) => url.set({ run: next, sel: null })} />
          </Judged>
        ) : (
          <>
            <Title lede="A CSV with the columns id, time, probability (and forecaster, for several at once) gets a verdict: does it beat the market, how sure is that, and does the evidence hold.">How good are your forecasts?</Title>
            <div className="grid items-start gap-6 min-[900px]:grid-cols-[420px_minmax(0,1fr)]">
              <Drop archives={home.data.archives} archive={home.data.default_archive} may={home.data.may.includes("start")} onDone={(next) => url.set({ run: next })} />
              <Shape archive={home.data.default_archive ?? home.data.archives[0]!} />
            </div>
          </>
        )}
      </Main>
    </>
  );
}

interface DropProps {
  archives: string[];
  archive: string | null;
  may: boolean;
  again?: boolean;
  onDone: (run: string) => void;
}

function Drop({ archives, archive, may, again, onDone }: DropProps) {
  const [file, setFile] = useState<File | null>(null);
  const [where, setWhere] = useState(archive ?? archives[0]!);
  const [name, setName] = useState("");
  const [cutoff, setCutoff] = useState("");
  const [percent, setPercent] = useState(false);
  const [zone, setZone] = useState("");
  const [over, setOver] = useState(false);
  const [busy, setBusy] = useState(false);
  const [wrong, setWrong] = useState<string | null>(null);
  const take = (found: File | null | undefined) => {
    if (!found) return;
    setFile(found);
    setWrong(null);
    setName((held) => held || found.name.replace(/\.[^.]*$/, "").slice(0, 64));
  };
  const send = async () => {
    if (!file) return;
    setBusy(true);
    setWrong(null);
    const query = new URLSearchParams({ archive: where, ...(name && { name }), ...(cutoff && { training_cutoff: `${cutoff}T00:00:00Z` }), ...(percent && { percent: "true" }), ...(zone && { timezone: zone }) });
    try {
      const answer = await fetch(`/api/scores?${query}`, {
        method: "POST",
        body: file,
        headers: {
          "Content-Type": /\.(jsonl|ndjson)$/.test(file.name) ? "application/x-ndjson" : "text/csv",
          "Idempotency-Key": crypto.randomUUID(),
          ...authorization(),
        },
      });
      const found = await answer.json();
      if (answer.ok) onDone((found as RunWhole).run_id);
      else setWrong(said(found));
    } catch (error) {
      setWrong(said(error));
    }
    setBusy(false);
  };
  return (
    <Panel title="File">
      <form className="grid gap-4" onSubmit={(event) => { event.preventDefault(); void send(); }}>
        <label
          className={`flex cursor-pointer items-center gap-3 rounded-md border-[1.5px] border-dashed px-4 py-5 focus-within:outline-2 focus-within:outline-offset-2 focus-within:outline-accent ${over ? "border-accent bg-accent-soft" : "border-line-2"}`}
          onDragOver={(event) => { event.preventDefault(); setOver(true); }}
          onDragLeave={() => setOver(false)}
          onDrop={(event) => { event.preventDefault(); setOver(false); take(event.dataTransfer.files[0]); }}
        >
          <Icon name={file ? "check" : "file"} size={16} />
          <span className="min-w-0 flex-1">
            <b className="block truncate font-semibold">{file ? file.name : "Drop a CSV or JSONL here"}</b>
            <span className="note">{file ? `${count(file.size)} bytes` : "or press to choose one"}</span>
          </span>
          <input type="file" className="sr" accept=".csv,.jsonl,.ndjson,text/csv" aria-label="File of probabilities" onChange={(event) => take(event.target.files?.[0])} />
        </label>
        <label className="field">Archive <span>whose markets they are about</span><select className="input" value={where} onChange={(e) => setWhere(e.target.value)}>{archives.map((one) => <option key={one}>{one}</option>)}</select></label>
        <label className="field">Name <span>where the file names no forecaster</span><input className="input" maxLength={64} value={name} onChange={(e) => setName(e.target.value)} placeholder="mine" /></label>
        <label className="field">End of training <span>of your model, if it has one</span><input className="input" type="date" value={cutoff} onChange={(e) => setCutoff(e.target.value)} /><span className="note block">Shows how much of the set it may simply remember.</span></label>
        <label className="flex items-center gap-2"><input type="checkbox" checked={percent} onChange={(e) => setPercent(e.target.checked)} /> The probabilities are in percent</label>
        <label className="field">Time zone <span>of times that state none</span><input className="input" maxLength={64} value={zone} onChange={(e) => setZone(e.target.value)} placeholder="Europe/Berlin" /></label>
        <button className="btn btn-main" disabled={!file || busy || !may}>{busy ? "Scoring…" : again ? "Score again" : "Score"}</button>
        {!may && <p className="note">This token may not start runs.</p>}
        {wrong && <p role="alert" className="text-worse">{wrong}</p>}
      </form>
    </Panel>
  );
}

function Shape({ archive }: { archive: string }) {
  const markets = useGet("/api/archives/{archive}/markets", { params: { path: { archive }, query: { limit: 2, status: "ended" } } });
  const ids = markets.data?.items.map((row) => row.id) ?? [];
  return (
    <Panel title="What the file looks like">
      <pre className="code">{["id,time,probability", ...ids.map((id, i) => `${id},2025-01-${15 + i}T12:00:00Z,0.${3 + 2 * i}`)].join("\n")}</pre>
      <dl className="facts mt-4 max-w-[60ch] !grid-cols-[auto_1fr] [&_dd]:!text-left [&_dd]:!font-normal">
        <dt><code>id</code></dt><dd>a market of the archive, as VENUE:id, its slug, or the address of its page</dd>
        <dt><code>time</code></dt><dd>when it was said, ISO 8601 with a zone, or Unix seconds; it is scored against the market’s price of that moment</dd>
        <dt><code>probability</code></dt><dd>of YES, from 0 to 1</dd>
        <dt><code>forecaster</code></dt><dd>optional: scores several at once</dd>
      </dl>
      <p className="note mt-3">Other names are known too: <code>market_id</code>, <code>timestamp</code>, <code>prob</code>, <code>model</code>…</p>
      <p className="note mt-4 mb-1">The same from a terminal:</p>
      <Command text={`beforehand score mine.csv --archive data/${archive}`} />
    </Panel>
  );
}
