"use client";
/** The verdict, whether it holds, the ranking, and why. */
import { useRouter } from "next/navigation";
import { board, verdictOf, unmetBySet } from "@/lib/board";
import { count, counted, fixed, minus, pairText, percent } from "@/lib/format";
import { later } from "@/lib/lazy";
import { useRun } from "@/lib/run";
import type { BoardRow, RunWhole } from "@/lib/schema";
import { to, useUrl, type Url } from "@/lib/url";
import { ValidityCard } from "@/parts/card";
import { IntervalAxis, IntervalMark, boardAxis, gainOf, rangeOf, tied, tone } from "@/parts/interval";
import { RunScreen } from "@/parts/scope";
import { Exports, Panel, Title, Verdict } from "@/parts/small";
import { DataTable, sorted, type Column } from "@/parts/table";

/** What stands below the table is fetched after it. */
const below = () => import("@/parts/reasons");
export const Why = later(() => below().then((found) => found.Why), 300);
const Behind = later(() => below().then((found) => found.Behind), 640);
const Foot = later(() => below().then((found) => found.Foot), 80);
export const Warnings = later(() => below().then((found) => found.Warnings), 40);
const Dock = later(() => below().then((found) => found.Dock));

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
  const unmet = unmetBySet(run);
  return (
    <Title
      lede={
        unmet.length ? (
          <>
            {counted(run.scores!.validity.n_questions?.value as number, "question")}. {counted(unmet.length, "bound is", "bounds are")} not met, so nobody can be said to beat the market here.
          </>
        ) : (
          best && (
            <>
              Over {counted(best.n_questions, "question")} in {counted(best.n_events, "event")} the gain of <b>{best.forecaster}</b> on the market is <b className="tnum">{fixed(gainOf(best).mean)}</b>{" "}
              (95 % interval {pairText(gainOf(best).bounds)}).
              {best.verdict === "not shown" && best.reasons.length > 0 && <> It is “not shown” because {minus(best.reasons.join("; and "))}.</>}
              {run.scores?.short && ` ${counted(run.scores.short.n_questions, "market is", "markets are")} too short for the grid, and scored apart.`}
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
      {run.warnings.length > 0 && <Warnings run={run} />}
      <ValidityCard card={run.card} kept={run.kept} />
      <BoardTable run={run} id={id} url={url} selected={selected} />
      {selected.length === 2 && <Dock run={id} a={selected[0]!} b={selected[1]!} onClose={() => url.set({ sel: null })} />}
      <Why run={run} id={id} />
      <Behind run={run} id={id} />
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
    const found = by === "verdict" ? row.verdict : by === "gain" ? gainOf(row).mean : row[by as keyof BoardRow];
    return typeof found === "number" || typeof found === "string" ? found : null;
  };
  const [market, others] = [rows.filter((r) => r.forecaster === "market"), rows.filter((r) => r.forecaster !== "market")];
  const few = (row: BoardRow) => by === "skill_vs_market" && row.answered < 0.95; // Not ranked against those that answered.
  const ordered = [...market, ...sorted(others.filter((row) => !few(row)), value, down), ...sorted(others.filter(few), value, down)];
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
      key: "skill_vs_market", head: "Skill vs market", small: "higher is better", num: true, sort: "skill_vs_market", label: "Skill",
      cell: (row) => two(fixed(row.skill_vs_market), row.forecaster === "market" ? "by definition" : pairText(row.skill_ci)),
    },
    { key: "gain", head: "Gain", small: "of the verdict", num: true, sort: "gain", label: "Gain", cell: (row) => two(fixed(gainOf(row).mean), pairText(gainOf(row).bounds)) },
    { key: "brier", head: "Brier", small: "lower is better", num: true, sort: "brier", label: "Brier", cell: (row) => two(fixed(row.brier), missing ? `market’s there ${fixed(row.market_brier)}` : pairText(row.brier_ci)) },
    { key: "log_loss", head: "Log loss", small: "ELS, nats", num: true, sort: "log_loss", skip: true, cell: (row) => two(fixed(row.log_loss, 3), fixed(row.els, 3)) },
    { key: "ece", head: "ECE", small: "lower", num: true, sort: "ece", skip: true, cell: (row) => fixed(row.ece, 3) },
    { key: "accuracy", head: "Accuracy", small: "of YES / NO", num: true, sort: "accuracy", skip: true, cell: (row) => percent(row.accuracy) },
    {
      key: "kelly", head: "Kelly", small: "final wealth", num: true, sort: "kelly", skip: true,
      cell: (row) => (typeof row.kelly === "object" ? `× ${fixed(row.kelly.final_wealth, 2)}` : "–"),
    },
    ...added.map(([name, metric]): Column<BoardRow> => ({
      key: `added-${name}`, head: name, small: metric.better, about: metric.about, num: true, skip: true,
      cell: (row) => fixed(row.added?.[name]?.value, 4),
    })),
    ...(differs((row) => row.n) ? [{ key: "n", head: "Forecasts", num: true, sort: "n", skip: true, cell: (row: BoardRow) => count(row.n) }] : []),
    ...(missing ? [
      { key: "missing", head: "Answered", small: "of what was asked", about: "Below 95 %: ranked last.", num: true, cell: (row: BoardRow) => percent(row.answered) },
    ] : []),
    ...(hasFlags ? [{ key: "flags", head: "Leak flags", small: "to be looked at", num: true, skip: true, cell: (row: BoardRow) => count(flagged(row)) }] : []),
  ];
  return (
    <Panel
      title="Leaderboard"
      hint={`${counted(others.length, "forecaster")}; tick two to compare`}
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
      <Foot run={run} flagged={hasFlags} />
    </Panel>
  );
}

function flagsOf(run: RunWhole, forecaster: string): number {
  const models = run.scores?.decisions?.models ?? {};
  const found = Object.entries(models).find(([name]) => name === forecaster || name.endsWith(`:${forecaster}`));
  return found ? found[1].flagged_evidence_ids + found[1].unshown_evidence_ids : 0;
}
