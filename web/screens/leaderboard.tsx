"use client";
/** The verdict, whether it holds, the ranking, and why. */
import Link from "@/parts/link";
import { useRouter } from "next/navigation";
import { said, useGet } from "@/lib/api";
import { board, boardAxis, rangeOf, tied, verdictOf } from "@/lib/board";
import { count, counted, dollars, fixed, pairText, percent } from "@/lib/format";
import { useRun } from "@/lib/run";
import type { BoardRow, RunWhole } from "@/lib/schema";
import { to, useUrl, type Url } from "@/lib/url";
import { MEASURES } from "@/lib/words";
import { ValidityCard } from "@/parts/card";
import { IntervalAxis, IntervalMark, axisOf, tone } from "@/parts/interval";
import { RunScreen } from "@/parts/scope";
import { Command, Exports, Facts, Panel, Title, Verdict } from "@/parts/small";
import { DataTable, sorted, type Column } from "@/parts/table";

export function Leaderboard() {
  const chosen = useRun();
  return (
    <RunScreen chosen={chosen} what="The leaderboard" heights={[78, 40, 420, 300]} path={(id) => `/api/runs/${id}/leaderboard`}>
      {(run, id) => <Board run={run} id={id} />}
    </RunScreen>
  );
}

export function Headline({ run }: { run: RunWhole }) {
  const { title, best } = verdictOf(run);
  const unmet = (run.card ?? []).filter((row) => row.ok === false);
  const rows = board(run).filter((row) => row.forecaster !== "market");
  const worse = rows.filter((row) => row.verdict === "worse than the market").length;
  return (
    <Title
      lede={
        unmet.length ? (
          <>
            {counted(run.scores!.validity.n_questions?.value as number, "question")}. {unmet.length === 1 ? "One bound" : `${unmet.length} bounds`} of the validity card{" "}
            {unmet.length === 1 ? "is" : "are"} not met, so nobody can be said to beat the market here, with or without skill.
          </>
        ) : (
          best && (
            <>
              Over {counted(best.n_questions, "question")} in {counted(best.n_events, "event")} the skill of <b>{best.forecaster}</b> is <b className="tnum">{fixed(best.skill_vs_market)}</b>{" "}
              (95 % interval {pairText(best.skill_ci)}): its squared error, on the Brier scale from 0 to 1, is {(best.skill_vs_market ?? 0) >= 0 ? "lower" : "higher"} than the market’s by so much.
              {run.scores?.short && ` ${counted(run.scores.short.n_questions, "market")} too short for the grid ${run.scores.short.n_questions === 1 ? "is" : "are"} scored apart.`}
              {worse > 0 && ` ${counted(worse, "forecaster is", "forecasters are")} worse than the market.`}
            </>
          )
        )
      }
    >
      {title}
    </Title>
  );
}

function Board({ run, id }: { run: RunWhole; id: string }) {
  const url = useUrl();
  const known = board(run).map((row) => row.forecaster);
  const selected = (url.get("sel") ?? "").split(",").filter((name) => known.includes(name));
  return (
    <>
      <Headline run={run} />
      <ValidityCard card={run.card} kept={run.kept} />
      <BoardTable run={run} id={id} url={url} selected={selected} />
      {selected.length === 2 && <Dock run={id} a={selected[0]!} b={selected[1]!} onClose={() => url.set({ sel: null })} />}
      <Why run={run} id={id} />
      <div className="grid gap-6 min-[1100px]:grid-cols-3">
        <Cost run={run} />
        <Leaks run={run} id={id} />
        <Placebo run={run} />
      </div>
    </>
  );
}

export function BoardTable({ run, id, url, selected }: { run: RunWhole; id: string; url: Url; selected: string[] }) {
  const router = useRouter();
  const rows = board(run);
  const axis = boardAxis(rows);
  const by = url.get("sort") ?? "skill_vs_market";
  const down = url.get("up") !== "1";
  const value = (row: BoardRow) => {
    if (by === "kelly") return typeof row.kelly === "object" ? row.kelly.final_wealth : null;
    const found = by === "verdict" ? row.verdict : row[by as keyof BoardRow];
    return typeof found === "number" || typeof found === "string" ? found : null;
  };
  const [market, others] = [rows.filter((r) => r.forecaster === "market"), rows.filter((r) => r.forecaster !== "market")];
  const ordered = [...market, ...sorted(others, value, down)];
  const ticked = () => (url.now("sel") ?? "").split(",").filter((name) => rows.some((row) => row.forecaster === name));
  const toggle = (name: string) => {
    const held = ticked();
    url.set({ sel: (held.includes(name) ? held.filter((one) => one !== name) : [...held, name].slice(-2)).join(",") });
  };
  const differs = (of: (row: BoardRow) => unknown) => new Set(rows.map(of)).size > 1;
  const missing = differs((row) => row.missing);
  const flagged = (row: BoardRow) => flagsOf(run, row.forecaster);
  const hasFlags = rows.some((row) => flagged(row) > 0);
  const added = Object.entries(rows[0]?.added ?? {});
  const two = (main: string, small: string) => (
    <>
      {main}
      <span className="sub">{small}</span>
    </>
  );
  const about = (key: string) => MEASURES.find((one) => one.key === key)!;
  const columns: Column<BoardRow>[] = [
    {
      key: "forecaster", head: "Forecaster", sort: "forecaster", width: "1%",
      cell: (row) => (
        <span className="flex items-center gap-2.5 min-[720px]:whitespace-nowrap">
          <input type="checkbox" className="tick" checked={selected.includes(row.forecaster)} aria-label={`Compare ${row.forecaster}`} onChange={() => toggle(row.forecaster)} />
          <span className="name">{row.forecaster}</span>
        </span>
      ),
    },
    { key: "verdict", head: "Verdict", sort: "verdict", width: "1%", cell: (row) => <Verdict value={row.verdict} /> },
    {
      key: "interval", wide: true, width: "26%",
      head: <IntervalAxis axis={axis} />,
      cell: (row) => <IntervalMark name={row.forecaster} range={row.forecaster === "market" ? { estimate: 0, ci: [0, 0] } : rangeOf(row)} axis={axis} color={tone(row.verdict)} />,
    },
    {
      key: "skill_vs_market", head: "Skill vs market", small: "higher is better", about: about("skill_vs_market").about, num: true, sort: "skill_vs_market", label: "Skill",
      cell: (row) => two(fixed(row.skill_vs_market), row.forecaster === "market" ? "by definition" : pairText(row.skill_ci)),
    },
    { key: "brier", head: "Brier", small: "lower is better", about: about("brier").about, num: true, sort: "brier", label: "Brier", cell: (row) => two(fixed(row.brier), pairText(row.brier_ci)) },
    { key: "log_loss", head: "Log loss", small: "nats, lower", about: about("log_loss").about, num: true, sort: "log_loss", skip: true, cell: (row) => fixed(row.log_loss, 3) },
    { key: "els", head: "ELS", small: "nats, higher", about: about("els").about, num: true, sort: "els", skip: true, cell: (row) => fixed(row.els, 3) },
    { key: "ece", head: "ECE", small: "lower", about: about("ece").about, num: true, sort: "ece", skip: true, cell: (row) => fixed(row.ece, 3) },
    { key: "accuracy", head: "Accuracy", small: "of YES / NO", about: about("accuracy").about, num: true, sort: "accuracy", skip: true, cell: (row) => percent(row.accuracy) },
    {
      key: "kelly", head: "Kelly", small: "final wealth", about: about("kelly").about, num: true, sort: "kelly", skip: true,
      cell: (row) => (typeof row.kelly === "object" ? `× ${fixed(row.kelly.final_wealth, 2)}` : <span title={row.kelly} className="text-ink-3">–</span>),
    },
    ...added.map(([name, metric]): Column<BoardRow> => ({
      key: `added-${name}`, head: name, small: metric.better, about: metric.about, num: true, skip: true,
      cell: (row) => fixed(row.added?.[name]?.value, 4),
    })),
    ...(differs((row) => row.n) ? [{ key: "n", head: "Forecasts", num: true, sort: "n", skip: true, cell: (row: BoardRow) => count(row.n) }] : []),
    ...(missing ? [{ key: "missing", head: "Missing", small: "not given", num: true, skip: true, cell: (row: BoardRow) => count(row.missing) }] : []),
    ...(hasFlags ? [{ key: "flags", head: "Leak flags", small: "must be 0", num: true, skip: true, cell: (row: BoardRow) => count(flagged(row)) }] : []),
  ];
  const tested = run.scores?.validity.variants_tried?.value;
  return (
    <Panel
      title="Leaderboard"
      hint={`${counted(others.length, "forecaster")} and the market; tick two rows to compare them`}
      right={<Exports path={`/api/runs/${id}/leaderboard`} name={`${id}-leaderboard`} />}
      pad={false}
    >
      <DataTable
        caption="Leaderboard"
        columns={columns}
        rows={ordered}
        id={(row) => row.forecaster}
        sorting={{ by, down }}
        onSort={(next) => url.set({ sort: next.by === "skill_vs_market" ? null : next.by, up: next.down ? null : "1" })}
        onOpen={(row) => router.push(to("/calibration/", { run: id, f: row.forecaster }))}
        keys={{
          x: (row) => toggle(row.forecaster),
          c: () => {
            const [a, b] = ticked();
            if (a && b) router.push(to("/compare/", { a: `${id}:${a}`, b: `${id}:${b}` }));
          },
        }}
        marks={(row) => ({
          "data-tie": tied(row) ? "true" : undefined,
          "data-pinned": row.forecaster === "market" ? "true" : undefined,
          "aria-selected": selected.includes(row.forecaster) ? true : undefined,
          "data-row": row.forecaster,
        })}
        cards
        rowHeight={44}
      />
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
            estimate, 95 % interval (band), deflated for the {typeof tested === "number" ? counted(tested, "variant") : "variants"} tried (line); an arrow: off the scale
          </span>
          <span>
            <i className="inline-block size-3.5 border border-line bg-tie" /> the 95 % interval includes 0
          </span>
        </p>
        <p className="note">
          Each question counts once. Intervals resample events and resolution months; the wider one is shown. {run.scores?.left_out}
          {!hasFlags && " Leak flags are 0 for all."} {run.cost ? `The run cost ${dollars(run.cost)}.` : "Nothing was paid."}
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
    </Panel>
  );
}

function flagsOf(run: RunWhole, forecaster: string): number {
  const models = run.scores?.decisions?.models ?? {};
  const found = Object.entries(models).find(([name]) => name === forecaster || name.endsWith(`:${forecaster}`));
  return found ? found[1].flagged_evidence_ids + found[1].unshown_evidence_ids : 0;
}

/** What the paired difference of two forecasters says, in words. */
export function paired(a: string, b: string, found: { difference: number | null; ci: (number | null)[]; verdict: string }): React.ReactNode {
  const [low, high] = found.ci;
  const difference = found.difference ?? 0;
  const [better, other] = difference >= 0 ? [a, b] : [b, a];
  const sure = typeof low === "number" && typeof high === "number" && (low > 0 || high < 0);
  const size = <b className="tnum">{fixed(Math.abs(difference))}</b>;
  if (!sure) {
    return (
      <>
        <b>{a}</b> and <b>{b}</b> are not shown to differ: {size} apart in squared error <span className="text-ink-2">(95 % interval {pairText(found.ci)}, which holds 0)</span>
      </>
    );
  }
  return (
    <>
      <b>{better}</b> has a lower squared error than <b>{other}</b> by {size} <span className="text-ink-2">(95 % interval {pairText(found.ci)})</span>
    </>
  );
}

function Dock({ run, a, b, onClose }: { run: string; a: string; b: string; onClose: () => void }) {
  const query = { a: `${run}:${a}`, b: `${run}:${b}` };
  const found = useGet("/api/comparisons", { params: { query } });
  const data = found.data;
  const range = data && { estimate: data.difference, ci: data.ci };
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
            <p data-difference={data.difference}>{paired(a, b, data)}</p>
          </div>
          <div className="hidden min-[1100px]:block">
            <IntervalMark name={`${a} against ${b}`} range={range} axis={axis} color={tone((data.ci[0] ?? 0) > 0 || (data.ci[1] ?? 0) < 0 ? "beats the market" : "")} height={24} />
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
  const rows = board(run).filter((row) => row.forecaster !== "market");
  const fresh = rows.find((row) => row.fresh)?.fresh?.n;
  const columns: Column<BoardRow>[] = [
    { key: "name", head: "Forecaster", cell: (row) => <Link className="name" href={to("/calibration/", { run: id, f: row.forecaster })}>{row.forecaster}</Link> },
    { key: "verdict", head: "Verdict", cell: (row) => <Verdict value={row.verdict} /> },
    { key: "deflated", head: "Skill, deflated interval", num: true, label: "Deflated", cell: (row) => pairText([row.deflated_lower, row.deflated_upper]) },
    {
      key: "fresh", head: "On prices at most 7 days old", small: fresh ? counted(fresh, "forecast") : undefined, num: true, label: "On fresh prices",
      cell: (row) => (row.fresh ? <>{fixed(row.fresh.skill_vs_market)} <span className="text-12 text-ink-3">{pairText(row.fresh.skill_ci)}</span><span className="sub">deflated {pairText([row.fresh.deflated_lower, row.fresh.deflated_upper])}</span></> : "–"),
    },
    { key: "why", head: "Reason", wide: true, cell: (row) => capital(row.reasons.join("; ")) || (row.verdict === "beats the market" ? "All four conditions hold" : row.verdict === "worse than the market" ? "The interval lies below 0, also deflated" : "–") },
  ];
  return (
    <Panel title="Why each verdict" pad={false}>
      <DataTable caption="Why each verdict" columns={columns} rows={rows} id={(row) => row.forecaster} cards />
    </Panel>
  );
}

const capital = (text: string) => text.charAt(0).toUpperCase() + text.slice(1);

function Cost({ run }: { run: RunWhole }) {
  return (
    <Panel title="Accuracy against cost">
      {run.cost ? (
        <Facts rows={[["spent", dollars(run.cost)], ["calls", count(run.calls)], ["tokens", count(run.tokens)]]} />
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
          ["showings flagged", of(leaks.documents_flagged, leaks.documents_shown)],
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
          <p className="text-ink-2">of {count(placebo.draws)} redraws of the outcomes from the market’s own prices, where nobody has skill, called someone “beats the market”. At most 5 % is expected.</p>
        </>
      ) : (
        <p className="text-ink-2">Untested: it was left out, or a bound of the card is not met, so that nobody could be said to beat the market here in any case.</p>
      )}
    </Panel>
  );
}
