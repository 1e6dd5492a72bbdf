"use client";
/** One run: what was done, what was paid, what happened, as it happens. */
import { later } from "@/lib/lazy";
import Link from "@/parts/link";
import { useEffect, useMemo, useRef } from "react";
import { clock, count, counted, dollars, instant, ms, span } from "@/lib/format";
import { useEvents } from "@/lib/live";
import { useRun } from "@/lib/run";
import type { RunWhole } from "@/lib/schema";
import { tell, type Told } from "@/lib/told";
import { to } from "@/lib/url";
import { KINDS } from "@/lib/words";
import { Icon } from "@/parts/icons";
import { ScopeBar } from "@/parts/scope";
import { Main } from "@/parts/shell";
import { Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";

const load = () => import("@/parts/run-next");
const Steps = later(() => import("@/parts/run-steps").then((found) => found.Steps), 260);
const Next = later(() => load().then((found) => found.Next), 150);
const Log = later(() => load().then((found) => found.Log), 320);
const Files = later(() => load().then((found) => found.Files));
const Progress = later(() => import("@/charts/progress").then((found) => found.default), 190);

export function Run() {
  const chosen = useRun(false);
  const { id, run, none, error, retry } = chosen;
  return (
    <>
      {id && <ScopeBar id={id} run={run} scored={false} path={`/api/runs/${id}/forecasts`} />}
      <Main busy={!run && !error && !none}>
        {error ? (
          <Failed error={error} retry={retry} what="The run" />
        ) : none ? (
          <Empty title="Start with a dry run" text="It says what would be asked, what that costs, and what the validity card would lack." command="beforehand backtest run --forecasters market,drift --dry-run">
            <Link className="btn btn-main" href="/new/">New run</Link>
          </Empty>
        ) : !run ? (
          <Loading heights={[70, 92, 260, 300]} label="Loading the run" />
        ) : (
          <Whole run={run} reload={retry} />
        )}
      </Main>
    </>
  );
}

function Whole({ run, reload }: { run: RunWhole; reload: () => void }) {
  const live = useEvents(run.run_id);
  const told = useMemo(() => tell(live.events), [live.events]);
  const again = useRef(reload);
  again.current = reload;
  // How it stands is asked again when it ended or went on, and once all its events are here.
  const over = live.link === "over";
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) again.current();
    begun.current = true;
  }, [told.ended, over]);
  const silent = live.events.length === 0;
  const total = run.total ?? 0;
  const status = live.link === "over" || silent ? run.status : told.ended ? run.status : "running";
  const done = silent ? (run.done ?? 0) : told.finished.size;
  return (
    <>
      <Title lede={<Story run={run} told={told} silent={silent} />}>
        Run {run.run_id} <span className="font-normal text-ink-2">{WORDS[status] ?? status}</span>
      </Title>
      {live.link === "away" && (
        <p role="status" className="flex items-center gap-2 rounded-md bg-warn-soft px-3.5 py-2.5 text-warn" data-away="true">
          <Icon name="bang" /> The server is away: this is how it stood at {clock(new Date(live.since ?? Date.now()).toISOString()).slice(0, 8)}. It is tried again every second; nothing is lost.
        </p>
      )}
      <Counts run={run} told={told} silent={silent} done={done} total={total} />
      <div className="grid items-start gap-6 min-[1100px]:grid-cols-[minmax(0,1fr)_400px]">
        <div className="grid min-w-0 gap-6">
          {told.done.length > 1 && (
            <Panel title="Progress" hint={told.gaps.length ? "shaded: no process was alive" : undefined} right={<span className="note">steps done</span>}>
              <Progress points={told.done} gaps={told.gaps} total={total} />
            </Panel>
          )}
          <Steps run={run} told={told} live={live} />
        </div>
        <div className="grid min-w-0 gap-6">
          <Next run={run} status={status} reload={reload} />
          <Log live={live} over={!["running", "cancelling"].includes(run.status)} />
          <Files run={run} />
        </div>
      </div>
    </>
  );
}

const WORDS: Record<string, string> = { success: "finished", running: "is running", stopped: "was stopped", cancelled: "was cancelled", failed: "failed", unfinished: "has no process", damaged: "is damaged" };

function Story({ run, told, silent }: { run: RunWhole; told: Told; silent: boolean }) {
  const times = (n: number) => (n === 1 ? "once" : n === 2 ? "twice" : `${n} times`);
  return (
    <>
      {KINDS[run.kind ?? ""] ?? run.kind}{run.created_at ? `, started ${instant(run.created_at)}${run.started_by ? ` by ${run.started_by}` : ""}` : ""}
      {run.parent ? <>, forked from <Link href={to("/run/", { run: run.parent })}>{run.parent}</Link></> : ""}. {run.reason ? `${run.reason}. ` : ""}
      {!silent && told.resumed > 0 && `It was resumed ${times(told.resumed)}: ${counted(told.answered, "call was", "calls were")} answered, ${told.repeated ? `${told.repeated} of them asked again` : "and none of them was asked again"}${told.again ? `; ${told.again} in flight when its process ended were sent again under the same key` : ""}.`}
      {silent && "This home has no journal of it, so no events of it."}
    </>
  );
}

function Counts({ run, told, silent, done, total }: { run: RunWhole; told: Told; silent: boolean; done: number; total: number }) {
  const calls = silent ? (run.calls ?? 0) : Math.max(told.answered, run.calls ?? 0);
  const cost = Math.max(told.spent, run.cost ?? 0);
  const unknown = silent && typeof run.calls !== "number" && run.kind !== "score"; // A scored file asks nobody.
  const limit = run.limits?.cost;
  const took = run.created_at && run.updated_at ? (ms(run.updated_at) - ms(run.created_at)) / 1000 : null;
  const cells: [string, string, string][] = [
    ["done", total ? `${count(done)} of ${count(total)}` : "–", "steps done"],
    ["took", span(took), "from its start to its last step"],
    ["calls", unknown ? "–" : count(calls), "calls sent"],
    ["spent", unknown ? "–" : dollars(cost), limit ? `spent, of ${dollars(limit)}` : calls ? "spent, no limit set" : "spent"],
  ];
  if (told.resumed) {
    cells.push(["resumed", count(told.resumed), "times resumed"], ["repeated", count(told.repeated), "answered calls repeated"], ["again", count(told.again), "in flight at a kill, sent again"]);
  }
  return (
    <dl className="panel flex flex-wrap overflow-hidden">
      {cells.map(([key, value, label]) => (
        <div key={key} className="-mr-px -mb-px flex flex-[1_1_150px] flex-col-reverse justify-end border-r border-b border-line px-5 py-4" data-count={key}>
          <dt className="text-12 text-ink-2">{label}</dt>
          <dd className="tnum text-20 font-semibold">{value}</dd>
        </div>
      ))}
    </dl>
  );
}
