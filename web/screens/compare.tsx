"use client";
/** Two forecasters against each other: what differs, by how much, how sure that is, and where. */
import { later } from "@/lib/lazy";
import Link from "@/parts/link";
import { useRouter } from "next/navigation";
import { useGet } from "@/lib/api";
import { board } from "@/lib/board";
import { count, counted, fixed, pairText, shortId, signed } from "@/lib/format";
import { usePages } from "@/lib/pages";
import { useRun } from "@/lib/run";
import type { PairWire, QuestionWire, RunDiff, RunWhole } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { IntervalAxis, IntervalMark, axisOf } from "@/parts/interval";
import { told } from "@/parts/told";
import { Main } from "@/parts/shell";
import { CopyLink, Exports, Facts, Outcome, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";
import { DataTable, type Column } from "@/parts/table";

const Errors = later(() => import("@/charts/scatter").then((found) => found.default), 480);

const half = (text: string): [string, string] => {
  const at = text.indexOf(":");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
};

export function Compare() {
  const url = useUrl();
  const chosen = useRun();
  const { a, b } = sides(url.get("a"), url.get("b"), chosen.run);
  return (
    <Main busy={chosen.loading && !a}>
      {a && b ? (
        <Two a={a} b={b} />
      ) : chosen.error ? (
        <Failed error={chosen.error} retry={chosen.retry} what="The comparison" />
      ) : chosen.loading ? (
        <Loading heights={[78, 420, 400]} />
      ) : (
        <Empty title="Choose two rows of a leaderboard" text="Two forecasters of one run, or of two, are compared on the forecasts that both made.">
          <Link className="btn" href="/leaderboard/">Leaderboard</Link>
        </Empty>
      )}
    </Main>
  );
}

/** What the address names; else the best forecaster of the newest run against the market. */
function sides(a: string | null, b: string | null, run: RunWhole | undefined) {
  if (a && b) return { a, b };
  const best = run?.kind === "backtest" ? board(run)[1] : undefined;
  return best ? { a: a ?? `${run!.run_id}:${best.forecaster}`, b: b ?? `${run!.run_id}:market` } : { a, b };
}

function Two({ a, b }: { a: string; b: string }) {
  const url = useUrl();
  const found = useGet("/api/comparisons", { params: { query: { a, b } } });
  const [runA] = half(a);
  const [runB] = half(b);
  const diff = useGet("/api/runs/{run_id}/diff", runA === runB ? null : { params: { path: { run_id: runA }, query: { other: runB } } });
  return (
    <>
      <div className="grid gap-3 min-[900px]:grid-cols-[1fr_auto]">
        {found.data ? <Said of={found.data} /> : found.error ? <span /> : <span className="skeleton h-20" />}
        <div className="flex flex-wrap items-end gap-2">
          <Side label="A" value={a} onChange={(next) => url.set({ a: next, b })} />
          <button type="button" className="btn" onClick={() => url.set({ a: b, b: a })} aria-label="Swap A and B">⇄</button>
          <Side label="B" value={b} onChange={(next) => url.set({ a, b: next })} />
          <CopyLink />
        </div>
      </div>
      {found.error ? (
        <Failed error={found.error} retry={() => void found.mutate()} what="The comparison" />
      ) : (
        <>
          <div className="grid items-start gap-6 min-[1100px]:grid-cols-2">
            <Difference of={found.data} a={a} b={b} diff={diff.data} same={runA === runB} />
            <Cloud a={a} b={b} />
          </div>
          <Questions a={a} b={b} run={runA} />
        </>
      )}
    </>
  );
}

function Side({ label, value, onChange }: { label: string; value: string; onChange: (value: string) => void }) {
  const [run, name] = half(value);
  const whole = useGet("/api/runs/{run_id}", { params: { path: { run_id: run } } });
  const list = useGet("/api/runs", { params: { query: { limit: 200 } } });
  const runs = (list.data?.items ?? []).filter((row) => row.kind === "backtest" && row.status === "success").map((row) => row.run_id);
  const names = whole.data?.scores?.leaderboard.map((row) => row.forecaster) ?? [];
  return (
    <fieldset className="flex gap-1">
      <legend className="note">{label}</legend>
      <select className="h-8 max-w-40 rounded-md border border-line-2 bg-surface px-2 font-mono text-12" aria-label={`Run of ${label}`} value={run} onChange={(event) => onChange(`${event.target.value}:${name}`)}>
        {[...new Set([run, ...runs])].map((one) => <option key={one}>{one}</option>)}
      </select>
      <select className="h-8 max-w-40 rounded-md border border-line-2 bg-surface px-2 text-12" aria-label={`Forecaster of ${label}`} value={name} onChange={(event) => onChange(`${run}:${event.target.value}`)}>
        {[...new Set([name, ...names])].filter(Boolean).map((one) => <option key={one}>{one}</option>)}
      </select>
    </fieldset>
  );
}

function Said({ of }: { of: PairWire }) {
  const sure = told(of);
  const better = (of.gain ?? 0) >= 0 ? [of.a, of.b] : [of.b, of.a];
  return (
    <Title
      lede={
        <>
          A gains <b className="tnum" data-difference={of.gain}>{signed(of.gain)}</b> a forecast on B (95 % interval {pairText(of.gain_ci)}; above 0, A is better), on the same {counted(of.n, "forecast")} of {counted(of.n_questions, "question")}.
          {of.minimum_detectable_effect !== null && ` A difference of ${fixed(of.minimum_detectable_effect)} would be found with a power of 80 %.`} This pair stands alone: it is not widened for what else was tried, as the leaderboard’s verdicts are.
        </>
      }
    >
      {sure ? `${better[0]} is better than ${better[1]}` : `${of.a} and ${of.b} are not shown to differ`}
    </Title>
  );
}

function Difference({ of, a, b, diff, same }: { of: PairWire | undefined; a: string; b: string; diff: RunDiff | undefined; same: boolean }) {
  const range = of && { estimate: of.gain, ci: of.gain_ci };
  const axis = range && axisOf([range]);
  const changed = Object.entries((diff?.config ?? {}) as Record<string, unknown>).filter(([, pair]) => Array.isArray(pair) && pair.length === 2) as [string, [unknown, unknown]][];
  return (
    <Panel title="Paired difference">
      {of && range && axis ? (
        <>
          <IntervalMark name="B − A" range={range} axis={axis} color={told(of) ? "var(--beats)" : "var(--ink-2)"} height={36} />
          <IntervalAxis axis={axis} sides={["B better", "A better"]} />
          <div className="mt-4">
            <Facts
              rows={[
                [`Brier of A (${of.a}), lower is better`, fixed(of.brier_a)],
                [`Brier of B (${of.b})`, fixed(of.brier_b)],
                ["forecasts that both made", count(of.n)],
                ["questions, events", `${count(of.n_questions)}, ${count(of.n_events)}`],
                ["effective periods", (of.effective_periods ?? 0).toFixed(1)],
                ["squared error of B minus A’s", `${signed(of.difference)} ${pairText(of.ci)}`],
              ]}
            />
          </div>
        </>
      ) : (
        <span className="skeleton h-40" />
      )}
      <h3 className="mt-5">What differs in the configuration</h3>
      {same ? (
        <p className="text-ink-2">Only the forecaster: {half(a)[1]} and {half(b)[1]} were asked in one run, about the same markets at the same instants.</p>
      ) : changed.length ? (
        <table className="data mt-2">
          <thead><tr><th scope="col">Setting</th><th scope="col">A</th><th scope="col">B</th></tr></thead>
          <tbody>{changed.map(([name, [x, y]]) => <tr key={name}><td>{name}</td><td>{JSON.stringify(x)}</td><td>{JSON.stringify(y)}</td></tr>)}</tbody>
        </table>
      ) : (
        <p className="text-ink-2">{diff ? "Nothing but the run." : "Reading both…"}</p>
      )}
    </Panel>
  );
}

function Cloud({ a, b }: { a: string; b: string }) {
  const router = useRouter();
  const found = useGet("/api/comparisons/questions", { params: { query: { a, b, limit: 1000 } } });
  const rows = found.data?.items ?? [];
  const points = rows.map((row) => ({ id: row.market_id, x: row.a, y: row.b, outcome: row.outcome }));
  return (
    <Panel
      title="Every question"
      hint={found.data && found.data.total! > rows.length ? `the ${count(rows.length)} of ${count(found.data.total)} that differ most` : undefined}
      right={<span className="legend"><span><i className="inline-block size-2 rounded-full bg-yes" />ended YES</span><span><i className="inline-block size-2 rounded-full border-2 border-no" />ended NO</span></span>}
    >
      {found.data ? <Errors points={points} a={half(a)[1]} b={half(b)[1]} onOpen={(id) => router.push(to("/market/", { run: half(a)[0], id, f: half(a)[1] }))} /> : <span className="skeleton h-[480px]" />}
    </Panel>
  );
}

function Questions({ a, b, run }: { a: string; b: string; run: string }) {
  const router = useRouter();
  const list = usePages("/api/comparisons/questions", { params: { query: { a, b, limit: 50 } } });
  const open = (row: QuestionWire) => to("/market/", { run, id: row.market_id, f: half(a)[1] });
  const columns: Column<QuestionWire>[] = [
    { key: "q", head: "Question", wide: true, cell: (row) => <><Link className="name" href={open(row)}>{row.question ?? row.market_id}</Link> <span className="font-mono text-11 text-ink-3">{shortId(row.market_id)}</span></> },
    { key: "outcome", head: "Outcome", cell: (row) => <Outcome value={row.outcome} /> },
    { key: "n", head: "Forecasts", num: true, skip: true, cell: (row) => count(row.n) },
    { key: "a", head: "Squared error", small: "A", num: true, label: "A", cell: (row) => fixed(row.a, 3) },
    { key: "b", head: "Squared error", small: "B", num: true, label: "B", cell: (row) => fixed(row.b, 3) },
    { key: "d", head: "B − A", small: "above 0: A better", num: true, label: "B − A", cell: (row) => <b>{signed(row.difference, 3)}</b> },
  ];
  const search = new URLSearchParams({ a, b });
  return (
    <Panel title="Questions that differ most" right={<Exports path={`/api/comparisons/questions?${search}`} name="compared-questions" />} pad={false}>
      <DataTable caption="Questions that differ most" columns={columns} rows={list.rows as QuestionWire[]} id={(row) => row.market_id} onOpen={(row) => router.push(open(row))} keys cards rowHeight={41} />
      {!list.all && <p className="px-5 py-3"><button type="button" className="btn" onClick={list.more}>More questions</button></p>}
    </Panel>
  );
}
