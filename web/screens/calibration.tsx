"use client";
/** Of what was said, how much came true; and the questions behind each bin. */
import Link from "@/parts/link";
import { said, useGet } from "@/lib/api";
import { board, leader } from "@/lib/board";
import { count, counted, day, fixed, pairText, percent, shortId } from "@/lib/format";
import { usePages } from "@/lib/pages";
import { later } from "@/lib/lazy";
import { useRun } from "@/lib/run";
import type { BinQuestion, BoardRow, CalibrationWire, RunWhole } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { Icon } from "@/parts/icons";
import { RunScreen } from "@/parts/scope";
import { Exports, Outcome, Panel, Title } from "@/parts/small";
import { Failed, Loading } from "@/parts/states";
import { DataTable, type Column } from "@/parts/table";

const Reliability = later(() => import("@/charts/reliability").then((found) => found.Reliability), 360);

export function Calibration() {
  const chosen = useRun();
  const url = useUrl();
  return (
    <RunScreen chosen={chosen} what="Calibration" heights={[78, 30, 640, 300]} path={(id) => `/api/runs/${id}/calibration?forecaster=${encodeURIComponent(url.get("f") ?? "market")}`}>
      {(run) => <Of run={run} />}
    </RunScreen>
  );
}

function Of({ run }: { run: RunWhole }) {
  const url = useUrl();
  const rows = board(run);
  const names = rows.map((row) => row.forecaster);
  const f = names.includes(url.get("f") ?? "") ? url.get("f")! : (leader(run)?.forecaster ?? "market");
  const path = { run_id: run.run_id };
  const found = useGet("/api/runs/{run_id}/calibration", { params: { path, query: { forecaster: f } } });
  const market = useGet("/api/runs/{run_id}/calibration", f === "market" ? null : { params: { path, query: { forecaster: "market" } } });
  const named = url.get("bin");
  const worst = found.data && farthest(found.data);
  const bin = named !== null && Number(named) >= 0 && Number(named) < 10 ? Number(named) : (worst ?? null);
  return (
    <>
      {found.error ? (
        <Failed error={found.error} retry={() => void found.mutate()} what="The calibration" />
      ) : !found.data ? (
        <Loading heights={[70, 600]} />
      ) : (
        <>
          <Head of={found.data} bin={bin} market={market.data} />
          <span className="chips" role="group" aria-label="Forecaster">
            {names.map((name) => (
              <button key={name} type="button" className="chip" aria-pressed={name === f} onClick={() => url.set({ f: name, bin: null })}>{name}</button>
            ))}
          </span>
          <div className="grid items-start gap-6 min-[1100px]:grid-cols-[minmax(0,9fr)_minmax(0,11fr)]">
            <Panel
              title="Reliability"
              right={
                <span className="legend">
                  <span><i className="inline-block h-0.5 w-4 bg-[var(--c1)]" />{f}</span>
                  {market.data && <span><i className="inline-block h-0.5 w-4 bg-[var(--mute)]" />market</span>}
                </span>
              }
            >
              <Reliability of={found.data} against={market.data} bin={bin} onBin={(next) => url.set({ bin: String(next) })} />
              <p className="note mt-2">Dot area: questions in the bin, each counts once. Bars: 95 % intervals of the share that came true, resampling events and months, the wider of both. Dashed: perfectly calibrated.</p>
              <TableOfBins of={found.data} />
            </Panel>
            {bin !== null && <Questions run={run} f={f} bin={bin} of={found.data} />}
          </div>
          <Parts rows={rows} run={run} />
        </>
      )}
    </>
  );
}

/** The bin that lies farthest from the diagonal, among those that hold at least a tenth of the largest. */
function farthest(of: CalibrationWire): number | null {
  const enough = Math.max(...of.bins.map((one) => one.n_questions)) / 10;
  let found: number | null = null;
  let most = -1;
  of.bins.forEach((one, i) => {
    if (one.forecast === null || one.outcome === null || one.n_questions < enough) return;
    const off = Math.abs(one.forecast - one.outcome);
    if (off > most) [found, most] = [i, off];
  });
  return found;
}

function Head({ of, bin, market }: { of: CalibrationWire; bin: number | null; market: CalibrationWire | undefined }) {
  const one = bin === null ? undefined : of.bins[bin];
  if (!one || one.forecast === null || one.outcome === null) return <Title>Calibration of {of.forecaster}</Title>;
  const [low, high] = one.ci;
  const inside = typeof low === "number" && typeof high === "number" && one.forecast >= low && one.forecast <= high;
  const within = one.told ? "so this is more than chance" : inside ? "so this is within chance" : "and of so many bins one lies outside by chance";
  return (
    <Title
      lede={
        <>
          Bin {fixed(one.low, 1)} to {fixed(one.high, 1)}: {counted(one.n, "forecast")} of {counted(one.n_questions, "question")}; the 95 % interval of what happened is {percent(low, 0)} to {percent(high, 0)}, {within}.
          Over all bins its calibration error (ECE, lower is better) is {fixed(of.ece, 3)}{market ? `, the market’s ${fixed(market.ece, 3)}` : ""}.
        </>
      }
    >
      When {of.forecaster} says {percent(one.forecast, 0)}, it happens {percent(one.outcome, 0)} of the time
    </Title>
  );
}

function TableOfBins({ of }: { of: CalibrationWire }) {
  return (
    <details className="mt-2">
      <summary className="btn btn-bare !inline-flex"><Icon name="table" /> Show as table</summary>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Bins as a table">
        <table className="data">
          <thead><tr><th scope="col">Bin</th><th scope="col" className="num">Forecasts</th><th scope="col" className="num">Questions</th><th scope="col" className="num">Said</th><th scope="col" className="num">Happened</th><th scope="col" className="num">95 % interval</th></tr></thead>
          <tbody>
            {of.bins.map((one) => (
              <tr key={one.low}><td>{fixed(one.low, 1)} to {fixed(one.high, 1)}</td><td className="num">{count(one.n)}</td><td className="num">{count(one.n_questions)}</td><td className="num">{fixed(one.forecast, 3)}</td><td className="num">{fixed(one.outcome, 3)}</td><td className="num">{pairText(one.ci, 3)}</td></tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

function Questions({ run, f, bin, of }: { run: RunWhole; f: string; bin: number; of: CalibrationWire }) {
  const list = usePages("/api/runs/{run_id}/calibration/questions", { params: { path: { run_id: run.run_id }, query: { forecaster: f, bin, limit: 100 } } });
  const rows = [...(list.rows as BinQuestion[])].sort((a, b) => Math.abs(b.probability - b.outcome) - Math.abs(a.probability - a.outcome));
  const one = of.bins[bin]!;
  const columns: Column<BinQuestion>[] = [
    {
      key: "question", head: "Question", wide: true,
      cell: (row) => (
        <span className="block py-1">
          <Link className="name" href={to("/market/", { run: run.run_id, id: row.market_id, f, t: row.time })}>{row.question ?? row.market_id}</Link>
          <span className="sub font-mono">{shortId(row.market_id)}</span>
        </span>
      ),
    },
    { key: "time", head: "t", label: "t", cell: (row) => <span className="tnum whitespace-nowrap">{day(row.time)}</span> },
    { key: "p", head: "Forecast", num: true, label: "Forecast", cell: (row) => fixed(row.probability, 3) },
    { key: "outcome", head: "Outcome", cell: (row) => <Outcome value={row.outcome} /> },
  ];
  return (
    <Panel title={`Bin ${fixed(one.low, 1)} to ${fixed(one.high, 1)}`} hint={`${counted(one.n, "forecast")}, farthest off first`} pad={false}>
      {list.error ? (
        <p className="px-5 pb-5">{said(list.error)}</p>
      ) : (
        <div className="max-h-[640px] overflow-y-auto">
          <DataTable caption={`Forecasts of bin ${bin}`} columns={columns} rows={rows.slice(0, 100)} id={(row) => row.market_id + row.time} cards />
        </div>
      )}
      {rows.length < one.n && <p className="note px-5 py-3">{count(rows.length)} of {count(one.n)} shown. <button type="button" className="text-accent underline" onClick={list.more}>More</button></p>}
    </Panel>
  );
}

function Parts({ rows, run }: { rows: BoardRow[]; run: RunWhole }) {
  const columns: Column<BoardRow>[] = [
    { key: "f", head: "Forecaster", cell: (row) => <Link className="name" href={to("/calibration/", { run: run.run_id, f: row.forecaster })}>{row.forecaster}</Link> },
    { key: "brier", head: "Brier", small: "lower", num: true, label: "Brier", cell: (row) => <b>{fixed(row.brier)}</b> },
    { key: "rel", head: "Reliability", small: "lower", num: true, label: "Reliability", cell: (row) => fixed(row.murphy.reliability) },
    { key: "res", head: "Resolution", small: "higher", num: true, label: "Resolution", cell: (row) => fixed(row.murphy.resolution) },
    { key: "unc", head: "Uncertainty", small: "of the set", num: true, skip: true, cell: (row) => fixed(row.murphy.uncertainty) },
    { key: "rest", head: "Residual", small: "inside bins", num: true, skip: true, cell: (row) => fixed(row.murphy.residual) },
    { key: "ece", head: "ECE", small: "lower", num: true, label: "ECE", cell: (row) => fixed(row.ece, 3) },
    { key: "sharp", head: "Sharpness", small: "variance of p", num: true, skip: true, cell: (row) => fixed(row.sharpness.variance) },
  ];
  return (
    <Panel title="Parts of the Brier score" hint="Brier = reliability − resolution + uncertainty + residual (Murphy 1973)" right={<Exports path={`/api/runs/${run.run_id}/leaderboard`} name={`${run.run_id}-leaderboard`} />} pad={false}>
      <DataTable caption="Parts of the Brier score" columns={columns} rows={rows} id={(row) => row.forecaster} cards />
    </Panel>
  );
}
