"use client";
/** Below the leaderboard: why each verdict, two rows against each other, cost, leaks, placebo. */
import Link from "@/parts/link";
import { said, useGet } from "@/lib/api";
import { board, leader } from "@/lib/board";
import { count, counted, dollars, fixed, minus, pairText, percent, signed } from "@/lib/format";
import { later } from "@/lib/lazy";
import { useAbouts } from "@/lib/run";
import type { BoardRow, RunWhole } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { MEASURES } from "@/lib/words";
import { Icon } from "@/parts/icons";
import { IntervalAxis, IntervalMark, axisOf, tone, type Gain } from "@/parts/interval";
import { told } from "@/parts/told";
import { paired } from "@/parts/paired";
import { Command, Exports, Facts, Panel, Verdict } from "@/parts/small";
import { DataTable, type Column } from "@/parts/table";

/** What the marks and columns of the leaderboard mean. */
export function Foot({ run, flagged }: { run: RunWhole; flagged: boolean }) {
  const tested = run.scores?.validity.variants_tried?.value;
  const noKelly = run.scores?.leaderboard.map((row) => row.kelly).find((one) => typeof one === "string");
  return (
    <div className="grid gap-2 px-5 py-3.5 max-[720px]:px-4">
      <p className="legend">
        <span>
          <svg width="44" height="12" aria-hidden="true" className="text-ink-2">
            <g stroke="currentColor" fill="currentColor">
              <line x1="9" x2="35" y1="6" y2="6" strokeWidth="9" strokeOpacity=".34" />
              <path d="M1 6h42M1 2.5v7M43 2.5v7" strokeWidth="1.25" fill="none" />
              <circle cx="22" cy="6" r="3.5" />
            </g>
          </svg>
          gain, 95 % interval (band), widened for the {typeof tested === "number" ? counted(tested, "variant") : "variants"} tried (line); an arrow: off the scale
        </span>
        <span>
          <i className="inline-block size-3.5 border border-line bg-tie" /> the widened interval includes 0
        </span>
      </p>
      <p className="note">
        In scores each question counts once, and their intervals resample events and resolution months, the wider one shown: they describe. The verdict rests on the gain: what the positions that forecasts take against the price made, marked at every price on record. {run.scores?.left_out}
        {!flagged && " Leak flags are 0 for all."}{noKelly && ` No Kelly: ${noKelly}.`} {run.cost ? `The run cost ${dollars(run.cost)}.` : run.tokens || typeof run.calls !== "number" ? "What its calls cost is not on record." : "Nothing was paid."}
      </p>
      <details className="note">
        <summary className="text-accent underline underline-offset-2">What each column means</summary>
        <dl className="mt-2 grid gap-x-4 gap-y-1 min-[720px]:grid-cols-[auto_1fr]">
          {MEASURES.map((one) => (
            <div key={one.key} className="contents">
              <dt className="font-medium text-ink-2">{one.label}</dt>
              <dd>{one.about}</dd>
            </div>
          ))}
        </dl>
      </details>
    </div>
  );
}

/** What has to be said beside the verdict. */
export function Warnings({ run }: { run: RunWhole }) {
  return (
    <ul className="grid gap-1 rounded-md bg-warn-soft px-3.5 py-2.5 text-warn" data-warnings={run.warnings.length}>
      {run.warnings.map((text) => (
        <li key={text} className="flex gap-2"><Icon name="bang" /><span>{text.charAt(0).toUpperCase() + text.slice(1)}.</span></li>
      ))}
    </ul>
  );
}

export function Dock({ run, a, b, onClose }: { run: string; a: string; b: string; onClose: () => void }) {
  const query = { a: `${run}:${a}`, b: `${run}:${b}` };
  const found = useGet("/api/comparisons", { params: { query } });
  const data = found.data;
  const range = data && { estimate: data.gain, ci: data.gain_ci, deflated: data.gain_bounds };
  const axis = range && axisOf([range]);
  return (
    <section
      aria-label="Paired comparison"
      aria-live="polite"
      className="sticky bottom-3 z-10 grid items-center gap-x-6 gap-y-3 rounded-[10px] border border-line-2 bg-surface px-5 py-4 shadow-lg min-[1100px]:grid-cols-[1fr_1fr_auto]"
    >
      {found.error ? (
        <p>{said(found.error)}</p>
      ) : !data || !axis || !range ? (
        <span className="skeleton h-10" />
      ) : (
        <>
          <div>
            <p className="note">Paired comparison, the same {counted(data.n, "forecast")} of {counted(data.n_questions, "question")}</p>
            <p data-difference={data.gain}>{paired(a, b, data)}</p>
          </div>
          <div className="hidden min-[1100px]:block">
            <IntervalMark name={`${a} against ${b}`} range={range} axis={axis} color={tone(told(data) ? "beats the market" : "")} height={24} />
            <IntervalAxis axis={axis} sides={[`${b} better`, `${a} better`]} />
          </div>
        </>
      )}
      <div className="flex gap-2">
        <Link className="btn" href={to("/compare/", query)}>Open in Compare</Link>
        <button type="button" className="btn btn-bare !h-8" onClick={onClose}>Close</button>
      </div>
    </section>
  );
}

export function Why({ run, id }: { run: RunWhole; id: string }) {
  const abouts = useAbouts(run);
  const rows = board(run).filter((row) => row.forecaster !== "market");
  const fresh = rows.find((row) => row.fresh)?.fresh?.n;
  const columns: Column<BoardRow>[] = [
    { key: "name", head: "Forecaster", cell: (row) => <><Link className="name" href={to("/calibration/", { run: id, f: row.forecaster })}>{row.forecaster}</Link><span className="sub !whitespace-normal">{abouts(row.forecaster)}</span></> },
    { key: "verdict", head: "Verdict", cell: (row) => <Verdict value={row.verdict} /> },
    { key: "gain", head: "Gain, widened interval", num: true, label: "Gain", cell: (row) => both(row.evidence) },
    { key: "fresh", head: "On prices at most 7 days old", small: fresh ? counted(fresh, "forecast") : undefined, num: true, label: "On fresh prices", cell: (row) => both(row.evidence?.fresh ?? (row.fresh ? row.evidence : null)) },
    { key: "book", head: "Against the book", small: "bid or ask, whichever is nearer", num: true, label: "Against the book", cell: (row) => both(row.evidence?.at_book) },
    { key: "why", head: "Reason", wide: true, cell: (row) => minus(capital(row.reasons.join("; "))) || (row.verdict === "beats the market" ? "The interval lies above 0, also at fresh prices" : row.verdict === "worse than the market" ? "The interval lies below 0" : "–") },
  ];
  return (
    <Panel title="Why each verdict" pad={false}>
      <DataTable caption="Why each verdict" columns={columns} rows={rows} id={(row) => row.forecaster} cards />
    </Panel>
  );
}

function both(gain: Gain | null | undefined) {
  return gain ? <>{fixed(gain.mean)} <span className="sub">{pairText(gain.bounds)}</span></> : "–";
}

const Course = later(() => import("@/charts/course").then((found) => found.default), 300);

/** When a forecaster's gain was made, beside what chance alone does. */
function Gained({ run, id }: { run: RunWhole; id: string }) {
  const url = useUrl();
  const rows = board(run).filter((row) => row.evidence?.course.length);
  const chosen = rows.find((row) => row.forecaster === url.get("gain")) ?? rows.find((row) => row.forecaster === leader(run)?.forecaster) ?? rows[0];
  if (!chosen?.evidence) return null;
  const found = chosen.evidence;
  return (
    <Panel
      title="When the gain was made"
      right={
        <select className="h-8 rounded-md border border-line-2 bg-surface px-2 text-12" aria-label="Forecaster whose gain is drawn" value={chosen.forecaster} onChange={(event) => url.set({ gain: event.target.value })}>
          {rows.map((row) => <option key={row.forecaster}>{row.forecaster}</option>)}
        </select>
      }
    >
      <Course name={chosen.forecaster} found={found} />
      <p className="note mt-2" data-rests={found.effective_periods}>
        It rests on {found.effective_periods.toFixed(1)} effective periods of {found.period_minutes === 1440 ? "a day" : `${found.period_minutes} minutes`}; what may be chance is judged {LED[found.leading] ?? found.leading}. Who has no skill gains {fixed(found.mean_cost === null ? null : -found.mean_cost)} on average. Questions that are still open make {percent(found.unsettled)} of it.
        {found.effective_windows !== null && " There were no prices in between: it holds if its events have nothing to do with each other."}
      </p>
      {found.heaviest.length > 0 && (
        <ol className="note mt-2 list-decimal pl-5">
          {found.heaviest.map((one) => (
            <li key={one.time}>{one.time.slice(0, 10)}: {percent(one.share)} of the variance{one.market && <>, when <Link href={to("/market/", { run: id, id: one.market })}>{one.market}</Link> moved by {signed(one.move, 3)}</>}</li>
          ))}
        </ol>
      )}
    </Panel>
  );
}

const LED: Record<string, string> = {
  periods: "by how it varied from period to period",
  implied: "by what the prices said could happen",
  "late marks": "by how it varied, as prices came late",
  events: "by how it varied from event to event",
  windows: "with questions that were open together taken to go together",
};

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

/** When the gain was made, and the three panels of what stands behind the figures. */
export function Behind({ run, id }: { run: RunWhole; id: string }) {
  return (
    <>
      <Gained run={run} id={id} />
      <div className="grid gap-6 min-[1100px]:grid-cols-3">
        <Cost run={run} id={id} />
        <Leaks run={run} id={id} />
        <Placebo run={run} />
      </div>
    </>
  );
}

const Priced = later(() => import("@/charts/priced").then((found) => found.default), 250);

function Cost({ run, id }: { run: RunWhole; id: string }) {
  const found = useGet("/api/runs/{run_id}/costs", run.calls ? { params: { path: { run_id: id }, query: { limit: 200 } } } : null);
  const rows = board(run);
  const paid = found.data?.items ?? [];
  const unit = paid.some((one) => (one.cost ?? 0) > 0) ? "cost" : "tokens";
  const points = paid.flatMap((one) => {
    const row = rows.find((r) => r.forecaster === one.forecaster);
    const value = one[unit];
    return row && row.forecaster !== "market" && typeof row.evidence?.mean === "number" && value !== null && one.forecasts ? [{ name: one.forecaster, x: value / one.forecasts, y: row.evidence.mean, ci: row.evidence.ci, verdict: row.verdict }] : [];
  });
  return (
    <Panel title="Accuracy against cost" right={run.calls ? <Exports path={`/api/runs/${id}/costs`} name={`${id}-costs`} forms={["csv"]} /> : undefined}>
      {found.error ? (
        <p>{said(found.error)}</p>
      ) : run.calls ? (
        <div className="grid gap-3">
          {points.some((one) => one.x > 0) && <Priced points={points} unit={unit === "cost" ? "US dollars per forecast" : "tokens per forecast"} />}
          <Facts rows={[["spent", run.cost ? dollars(run.cost) : "no price on record"], ["calls", count(run.calls)], ["tokens", count(run.tokens)]]} />
        </div>
      ) : typeof run.calls !== "number" ? (
        <p className="text-ink-2">Untested: this home has no journal of the run, so what it cost is not on record.</p>
      ) : (
        <div className="grid gap-3">
          <p className="text-ink-2">Nothing in this run was paid for, so there is no cost to set against accuracy. Add a model with a budget:</p>
          <Command text="beforehand backtest run --forecasters market,openai:gpt-5 --max-cost 5" />
        </div>
      )}
    </Panel>
  );
}

function Leaks({ run, id }: { run: RunWhole; id: string }) {
  const leaks = run.scores!.leaks;
  const of = (n: number, all: number) => (all ? `${count(n)} of ${count(all)}` : "untested");
  return (
    <Panel title="Leak report">
      <Facts
        rows={[
          ["records after t shown", of(leaks.admitted_after_t, leaks.rechecked)],
          ["refused at the wall", of(leaks.refused, leaks.checked)],
          ["planted canaries seen early", of(leaks.canaries_seen, leaks.canaries_planted)],
          ["showings flagged, to be looked at", of(leaks.documents_flagged, leaks.documents_shown)],
          ["decisions on a flagged document", of(leaks.decisions_flagged, leaks.decisions_citing)],
          ...(run.scores!.audit ? [["evidence audit passed", of(run.scores!.audit.passed, run.scores!.audit.total)] as [string, string]] : []),
        ]}
      />
      <p className="note mt-3">
        {run.scores!.leak_note} <Link href={to("/market/", { run: id, id: run.scores!.pictured?.id })}>See one market</Link>
      </p>
    </Panel>
  );
}

function Placebo({ run }: { run: RunWhole }) {
  const placebo = run.scores!.placebo;
  return (
    <Panel title="Placebo">
      {placebo ? (
        <>
          <p className="tnum text-20 font-semibold">{percent(placebo.any_share)}</p>
          <p className="text-ink-2">of {count(placebo.draws)} redraws of prices and endings in which nobody can gain, with each forecaster saying beyond the price what it said here, would have called someone “beats the market”. At most 2.5 % is expected.</p>
        </>
      ) : (
        <p className="text-ink-2">Untested: it was left out, or a bound of the card is not met, so that nobody could be said to beat the market here in any case.</p>
      )}
    </Panel>
  );
}
