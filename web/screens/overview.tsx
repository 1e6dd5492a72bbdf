"use client";
/** Who beats the market, how sure that is, and what was run last. */
import Link from "@/parts/link";
import { useGet } from "@/lib/api";
import { board, leader, verdictOf } from "@/lib/board";
import { count, counted, fixed, minus, pairText } from "@/lib/format";
import { worldOf } from "@/lib/run";
import { later } from "@/lib/lazy";
import type { RunRow } from "@/lib/schema";
import { to } from "@/lib/url";
import { SCORED } from "@/lib/words";
import { ValidityCard } from "@/parts/card";
import { IntervalAxis, IntervalMark, boardAxis, gainOf, rangeOf, tone } from "@/parts/interval";
import { Main } from "@/parts/shell";
import { Panel, Title, WorldBadge } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";
import { runColumns } from "@/parts/run-columns";
import { DataTable } from "@/parts/table";

const Reliability = later(() => import("@/charts/reliability").then((found) => found.Reliability), 360);

export function Overview() {
  const list = useGet("/api/runs", { params: { query: { limit: 50 } } }, { refreshInterval: 10_000 });
  const runs = list.data?.items ?? [];
  const scored = runs.filter((run) => SCORED.includes(run.kind) && run.status === "success");
  // Of each archive the newest that is large enough to tell, else the newest; two at most.
  const best = [...scored.filter((run) => run.valid), ...scored.filter((run) => !run.valid)];
  const newest = scored.map((run) => best.find((one) => one.archive_digest === run.archive_digest)!).filter((run, i, all) => all.indexOf(run) === i).slice(0, 2);
  return (
    <Main busy={list.isLoading}>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.mutate()} what="The overview" />
      ) : list.isLoading ? (
        <Loading heights={[34, 440, 320]} label="Loading the overview" />
      ) : !runs.length ? (
        <>
          <Empty
            title="How good is this forecaster, really?"
            text="Nothing has been run here yet. A demo makes a simulated world, backtests eight forecasters in it and scores them: a few seconds, no keys, no network, no cost."
            command="beforehand demo"
          />
          <Panel pad={false}><Ways /></Panel>
        </>
      ) : (
        <>
          <Title>Who beats the market, and how sure is that?</Title>
          {newest.length > 0 && (
            <div className={`grid gap-6 ${newest.length > 1 ? "min-[1100px]:grid-cols-2" : ""}`}>
              {newest.map((run) => <Result key={run.run_id} id={run.run_id} />)}
            </div>
          )}
          <div className="grid items-start gap-6 min-[1100px]:grid-cols-[minmax(0,1fr)_400px]">
            <Runs runs={runs.slice(0, 8)} total={list.data?.total ?? runs.length} />
            {newest[0] && <Calibrated id={newest[0].run_id} />}
          </div>
        </>
      )}
    </Main>
  );
}

function useWhole(id: string) {
  return useGet("/api/runs/{run_id}", { params: { path: { run_id: id } } });
}

function Result({ id }: { id: string }) {
  const { data: run, error, mutate } = useWhole(id);
  if (error) return <Failed error={error} retry={() => void mutate()} what={`Run ${id}`} />;
  if (!run) return <span className="skeleton h-[440px]" />;
  if (!run.scores) return null;
  const rows = board(run).slice(0, 10);
  const axis = boardAxis(board(run));
  const { title, best } = verdictOf(run);
  return (
    <section className="panel grid content-start gap-3 p-5" data-result={id}>
      <p className="flex flex-wrap items-center gap-3">
        <WorldBadge world={worldOf(run)} />
        <Link className="font-mono text-12" href={to("/leaderboard/", { run: id })}>{id}</Link>
      </p>
      <div>
        <h2 className="!text-20 !leading-snug"><Link className="!text-ink" href={to("/leaderboard/", { run: id })}>{title}</Link></h2>
        {best && (
          <p className="text-ink-2">
            {best.verdict === "beats the market" ? "" : "Nearest: "}
            {best.forecaster}, gain <b className="tnum font-semibold text-ink" data-gain={gainOf(best).mean}>{fixed(gainOf(best).mean)}</b> (95 % interval {pairText(gainOf(best).bounds)}) over {counted(best.n_questions, "question")} in {counted(best.n_events, "event")}.
            {best.verdict === "not shown" && best.reasons[0] && ` Not shown to be better, because ${minus(best.reasons[0])}.`}
          </p>
        )}
      </div>
      <div className="grid grid-cols-[minmax(80px,auto)_minmax(0,1fr)] items-center gap-x-3">
        <span />
        <IntervalAxis axis={axis} />
        {rows.map((row) => (
          <div key={row.forecaster} className="contents">
            <span className={`truncate text-right text-12 ${row === best ? "font-semibold" : "text-ink-2"}`} title={row.forecaster}>{row.forecaster}</span>
            <IntervalMark name={row.forecaster} range={row.forecaster === "market" ? { estimate: 0, ci: [0, 0] } : rangeOf(row)} axis={axis} color={tone(row.verdict)} height={24} />
          </div>
        ))}
      </div>
      <p className="note">Gain: what the positions that forecasts take against the market’s price made, in squared error; above 0 is better. Band: 95 % interval; line: widened for the variants tried.</p>
      <ValidityCard card={run.card} kept={run.kept} />
    </section>
  );
}

function Runs({ runs, total }: { runs: RunRow[]; total: number }) {
  const states = new Map<string, number>();
  for (const run of runs) states.set(run.status, (states.get(run.status) ?? 0) + 1);
  return (
    <Panel title="Runs" hint={[...states].map(([state, n]) => `${n} ${state}`).join(", ")} right={<Link className="btn btn-bare" href="/runs/">All {count(total)}</Link>} pad={false}>
      <DataTable caption="Runs" columns={runColumns()} rows={runs} id={(run) => run.run_id} cards />
      <Ways />
    </Panel>
  );
}

function Ways() {
  const ways: [string, string, string][] = [
    ["/score/", "Score my forecasts", "Drop a CSV, see the verdict and every row left out"],
    ["/new/", "Start a run", "See what it costs and what would be missing first"],
    ["/ask/", "Ask", "An answer from records known by a date you choose"],
  ];
  return (
    <nav aria-label="What next" className="grid border-t border-line min-[720px]:grid-cols-3">
      {ways.map(([href, title, text]) => (
        <Link key={href} href={href} className="border-line px-5 py-3.5 hover:bg-hover hover:no-underline min-[720px]:border-l min-[720px]:first:border-l-0">
          <b className="font-semibold">{title}</b>
          <span className="block text-12 text-ink-2">{text}</span>
        </Link>
      ))}
    </nav>
  );
}

function Calibrated({ id }: { id: string }) {
  const { data: run } = useWhole(id);
  const f = run && leader(run)?.forecaster;
  const found = useGet("/api/runs/{run_id}/calibration", f ? { params: { path: { run_id: id }, query: { forecaster: f } } } : null);
  if (!f) return null;
  return (
    <Panel title={`Is ${f} calibrated?`}>
      {found.data ? <Reliability of={found.data} counts={false} most={360} /> : <span className="skeleton h-[360px]" />}
      <p className="note mt-2">ECE {fixed(found.data?.ece, 3)} (lower is better). Bars: 95 % intervals; dot area: questions in the bin. <Link href={to("/calibration/", { run: id, f })}>All forecasters</Link></p>
    </Panel>
  );
}
