"use client";
/** The line under the bar: which run is shown, in which world, how much of it, and its files. */
import { useEffect } from "react";
import { useGet } from "@/lib/api";
import { briefly, count, instant, type Maybe } from "@/lib/format";
import { useWorld, type Chosen } from "@/lib/run";
import type { RunWhole } from "@/lib/schema";
import { useUrl } from "@/lib/url";
import { SCORED } from "@/lib/words";
import { Main } from "./shell";
import { CopyLink, Exports, WorldBadge } from "./small";
import { Empty, Failed, Loading } from "./states";

export function ScopeBar({ id, run, path, scored = true, facts }: {
  id: string;
  run: RunWhole | undefined;
  /** The API's path of what the screen shows, for CSV and JSON. */
  path?: string;
  scored?: boolean;
  facts?: [Maybe<number>, string][];
}) {
  const url = useUrl();
  const world = useWorld(run);
  const list = useGet("/api/runs", { params: { query: { limit: 200 } } });
  const runs = (list.data?.items ?? []).filter((row) => !scored || SCORED.includes(row.kind));
  const names = runs.map((row) => row.run_id);
  const choose = (name: string) => url.set({ run: name, sel: null, step: null, rec: null, bin: null });
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (/^(INPUT|TEXTAREA|SELECT)$/.test((event.target as HTMLElement).tagName)) return;
      const step = event.key === "[" ? 1 : event.key === "]" ? -1 : 0;
      const next = step && names[names.indexOf(id) + step];
      if (next) choose(next);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  });
  const card = run?.scores?.validity;
  const shown: [Maybe<number>, string][] = facts ?? [
    [card?.n_questions?.value as number, "questions"],
    [card?.n_events?.value as number, "events"],
    [card?.n_forecasts?.value as number, "forecasts"],
  ];
  return (
    <aside aria-label="The run shown" className="border-b border-line bg-surface">
      <div className="frame flex min-h-[42px] flex-wrap items-center gap-x-4 gap-y-1 py-1 text-12 text-ink-2">
        <label className="flex items-center gap-2">
          <span className="sr">Run</span>
          <select
            className="max-w-[42vw] truncate rounded-md bg-transparent py-1.5 pr-6 font-mono text-12 text-ink"
            value={id}
            onChange={(event) => choose(event.target.value)}
          >
            {!names.includes(id) && <option value={id}>{id}</option>}
            {runs.map((row) => (
              <option key={row.run_id} value={row.run_id}>
                {row.run_id} ({briefly(row.subject ?? row.kind, 40)}, {instant(row.created_at)})
              </option>
            ))}
          </select>
        </label>
        <WorldBadge world={world} />
        {shown.filter(([n]) => typeof n === "number").map(([n, unit]) => (
          <span key={unit}>
            <b className="tnum font-semibold text-ink">{count(n)}</b> {unit}
          </span>
        ))}
        <div className="no-print ml-auto flex gap-0.5">
          <CopyLink />
          {path && <Exports path={path} name={`${id}-${path.split("?")[0]!.split("/").pop()}`} />}
        </div>
      </div>
    </aside>
  );
}

/** A screen about one run: its states until the run is there. */
export function RunScreen({ chosen, what, heights, path, children, scored = true }: {
  chosen: Chosen;
  what: string;
  heights: number[];
  path?: (id: string) => string;
  scored?: boolean;
  children: (run: RunWhole, id: string) => React.ReactNode;
}) {
  const { id, run, none, error, retry } = chosen;
  const ready = run && (!scored || run.scores);
  return (
    <>
      {id && <ScopeBar id={id} run={run} path={path?.(id)} scored={scored} />}
      <Main busy={!ready && !error && !none}>
        {error ? (
          <Failed error={error} retry={retry} what={what} />
        ) : none ? (
          <Empty
            title={`${what} needs one finished run`}
            text="A demo makes a simulated world, backtests eight forecasters in it and scores them. It takes a few seconds and costs nothing."
            command="beforehand demo"
          />
        ) : !run ? (
          <Loading heights={heights} label={`Loading ${what.toLowerCase()}`} />
        ) : !run.scores && scored ? (
          <Empty
            title={`Run ${run.run_id} has no scores`}
            text={run.headline ?? (run.status === "running" ? "It is still under way: they come when it ends." : `It is a ${run.kind ?? "run"} and stands at "${run.status}".`)}
          >
            <a className="btn" href={`/run/?run=${encodeURIComponent(run.run_id)}`}>See the run</a>
          </Empty>
        ) : (
          children(run, run.run_id)
        )}
      </Main>
    </>
  );
}
