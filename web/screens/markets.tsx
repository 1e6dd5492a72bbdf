"use client";
/** Every question of a run (or of the archive), with its price and what was forecast last. */
import Link from "@/parts/link";
import { useRouter } from "next/navigation";
import { useEffect, useState } from "react";
import { useGet } from "@/lib/api";
import { board, leader } from "@/lib/board";
import { count, counted, day, fixed, shortId, signed, span } from "@/lib/format";
import { usePages } from "@/lib/pages";
import { useRun } from "@/lib/run";
import type { MarketRow, QuestionWire, RunWhole } from "@/lib/schema";
import { to, useUrl, type Url } from "@/lib/url";
import { ScopeBar } from "@/parts/scope";
import { Main } from "@/parts/shell";
import { Exports, Outcome, Panel, Title } from "@/parts/small";
import { Spark } from "@/parts/spark";
import { Empty, Failed, Loading } from "@/parts/states";
import { DataTable, type Column } from "@/parts/table";

type Sort = "apart" | "difference" | "a" | "b" | "n" | "time" | "outcome" | "forecast_a" | "market_id";
const LIMIT = 60;

export function Markets() {
  const chosen = useRun();
  const home = useGet("/api/workspace", {});
  const archive = home.data?.default_archive;
  const board = chosen.run?.scores?.leaderboard ?? [];
  const walked = board.some((row) => row.forecaster !== "market") && chosen.run?.kind === "backtest";
  return (
    <>
      {chosen.id && <ScopeBar id={chosen.id} run={chosen.run} />}
      <Main busy={chosen.loading}>
        {chosen.error ? (
          <Failed error={chosen.error} retry={chosen.retry} what="The markets" />
        ) : chosen.loading || home.isLoading ? (
          <Loading heights={[70, 30, 700]} label="Loading markets" />
        ) : walked ? (
          <OfRun run={chosen.run!} />
        ) : chosen.run?.archive || archive ? (
          <OfArchive archive={chosen.run?.archive ?? archive!} />
        ) : (
          <Empty title="There is no archive here" text="An archive holds markets as they were at each instant. A demo makes a simulated one; recorded ones are imported." command="beforehand world import markets markets.jsonl" />
        )}
      </Main>
    </>
  );
}

/** A box to filter by words; it follows the address, and changes it when typing rests. */
function Words({ url }: { url: Url }) {
  const held = url.get("q") ?? "";
  const [text, setText] = useState(held);
  useEffect(() => setText(held), [held]);
  useEffect(() => {
    const waiting = setTimeout(() => url.set({ q: text.trim() }, "replace"), 250);
    return () => clearTimeout(waiting);
  }, [text, url]);
  return <input className="input !mt-0 !h-8 max-w-56" type="search" aria-label="Words of the question" placeholder="words of the question" value={text} onChange={(event) => setText(event.target.value)} />;
}

function Chips({ label, name, values, url }: { label: string; name: string; values: [string, string][]; url: Url }) {
  const held = url.get(name);
  return (
    <span className="chips" role="group" aria-label={label}>
      {values.map(([value, text]) => (
        <button key={value} type="button" className="chip" aria-pressed={held === value} onClick={() => url.set({ [name]: held === value ? null : value })}>
          {text}
        </button>
      ))}
    </span>
  );
}

function OfRun({ run }: { run: RunWhole }) {
  const url = useUrl();
  const router = useRouter();
  const names = board(run).map((row) => row.forecaster).filter((name) => name !== "market");
  const f = names.includes(url.get("f") ?? "") ? url.get("f")! : leader(run)!.forecaster;
  const by = (url.get("sort") ?? "apart") as Sort;
  const down = url.get("up") !== "1";
  const outcome = url.get("outcome");
  const filters = { q: url.get("q") || undefined, venue: url.get("venue") || undefined, outcome: outcome ? Number(outcome) : undefined };
  const query = { a: `${run.run_id}:${f}`, b: `${run.run_id}:market`, sort: by, descending: down, prices: 24, limit: LIMIT, ...filters };
  const first = useGet("/api/comparisons/questions", { params: { query: { a: query.a, b: query.b, sort: by, descending: down, prices: 24, limit: 1 } } });
  const list = usePages("/api/comparisons/questions", { params: { query } });
  const rows = list.rows as QuestionWire[];
  const venues = Object.entries(first.data?.venues ?? {});
  const outcomes = first.data?.outcomes ?? {};
  const all = Object.values(outcomes).reduce((a, b) => a + b, 0);
  const between = all - (outcomes["1"] ?? 0) - (outcomes["0"] ?? 0);
  const search = new URLSearchParams(Object.entries({ a: query.a, b: query.b, ...filters }).filter(([, v]) => v !== undefined).map(([k, v]) => [k, String(v)]));
  const columns: Column<QuestionWire>[] = [
    {
      key: "question", head: "Question", wide: true, sort: "market_id", width: "34%",
      cell: (row) => (
        <span className="block min-[720px]:max-w-[42vw] min-[1180px]:max-w-[390px] min-[1400px]:max-w-[460px]">
          <Link className="name block min-[720px]:truncate" title={row.question ?? row.market_id} href={to("/market/", { run: run.run_id, id: row.market_id, f })}>{row.question ?? row.market_id}</Link>
          <span className="font-mono text-11 text-ink-3">{shortId(row.market_id)}</span>
        </span>
      ),
    },
    { key: "spark", head: "Price, first to last", small: "dot: outcome", skip: true, cell: (row) => <Spark prices={row.prices} outcome={row.outcome} /> },
    { key: "price", head: "Price", small: "at the last t", num: true, label: "Price", cell: (row) => fixed(row.forecast_b, 3) },
    { key: "forecast", head: f, small: "last forecast", num: true, sort: "forecast_a", label: "Forecast", cell: (row) => <b>{fixed(row.forecast_a, 3)}</b> },
    { key: "gap", head: "Gap", small: "forecast − price", num: true, skip: true, cell: (row) => signed(row.forecast_a - row.forecast_b, 3) },
    { key: "n", head: "Forecasts", num: true, sort: "n", skip: true, cell: (row) => count(row.n) },
    { key: "b", head: "Brier", small: "market", num: true, sort: "b", skip: true, cell: (row) => fixed(row.b, 3) },
    { key: "a", head: "Brier", small: f, num: true, sort: "a", skip: true, cell: (row) => fixed(row.a, 3) },
    {
      key: "gain", head: "Gain", small: "above 0: better", num: true, sort: "difference", label: "Gain", about: "The market's mean squared error minus the forecaster's, on this question.",
      cell: (row) => <span className={Math.abs(row.difference) < 5e-4 ? "" : row.difference > 0 ? "text-beats" : "text-worse"}>{signed(row.difference, 3)}</span>,
    },
    { key: "time", head: "Last t", sort: "time", skip: true, cell: (row) => <span className="tnum whitespace-nowrap">{day(row.time)}</span> },
    { key: "outcome", head: "Outcome", sort: "outcome", cell: (row) => <Outcome value={row.outcome} /> },
  ];
  return (
    <>
      <Title lede={!first.data ? "Loading the questions of this run." : <>{counted(all, "resolved question")} of this run; {count(outcomes["1"] ?? 0)} ended YES, {count(outcomes["0"] ?? 0)} NO{between > 0 && `, ${count(between)} in between`}. The squared errors of <b>{f}</b> beside the market’s.</>}>Markets</Title>
      <div className="chips">
        <Words url={url} />
        {venues.length > 1 && <Chips label="Venue" name="venue" values={venues.map(([name, n]) => [name, `${name} ${count(n)}`])} url={url} />}
        <Chips label="Outcome" name="outcome" values={[["1", `ended YES ${count(outcomes["1"] ?? 0)}`], ["0", `ended NO ${count(outcomes["0"] ?? 0)}`]]} url={url} />
        <span className="chips items-center" role="group" aria-label="Order"><span className="text-12 text-ink-2">Order</span>
          {([["apart", false, "most apart"], ["difference", true, "lost most to the market"], ["difference", false, "gained most"], ["a", false, "worst forecasts"]] as [Sort, boolean, string][]).map(([sort, up, text]) => (
            <button key={text} type="button" className="chip" aria-pressed={by === sort && down === !up} onClick={() => url.set({ sort, up: up ? "1" : null })}>{text}</button>
          ))}
        </span>
        <label className="flex items-center gap-2 text-12 text-ink-2">
          Forecaster
          <select className="h-8 rounded-md border border-line-2 bg-surface px-2 text-ink" value={f} onChange={(event) => url.set({ f: event.target.value })}>
            {names.map((name) => <option key={name}>{name}</option>)}
          </select>
        </label>
      </div>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.mutate()} what="The questions" />
      ) : list.isLoading ? (
        <Loading heights={[700]} />
      ) : rows.length === 0 ? (
        <Empty title="No question fits these filters"><button type="button" className="btn" onClick={() => url.set({ q: null, venue: null, outcome: null })}>Show all {count(all)}</button></Empty>
      ) : (
        <Panel title={`${counted(list.total ?? rows.length, "question")}`} hint={<><kbd>j</kbd> <kbd>k</kbd> move, <kbd>Enter</kbd> opens</>} right={<Exports path={`/api/comparisons/questions?${search}`} name={`${run.run_id}-questions`} />} pad={false}>
          <DataTable
            caption="Questions"
            columns={columns}
            rows={rows}
            id={(row) => row.market_id}
            sorting={{ by, down }}
            onSort={(next) => url.set({ sort: next.by, up: next.down ? null : "1" })}
            onOpen={(row) => router.push(to("/market/", { run: run.run_id, id: row.market_id, f }))}
            onEnd={list.all ? undefined : list.more}
            keys
            cards
            rowHeight={48}
          />
          {!list.all && <p className="note px-5 py-3">{count(rows.length)} of {count(list.total)} fetched; the rest comes as you scroll.</p>}
        </Panel>
      )}
    </>
  );
}

function OfArchive({ archive }: { archive: string }) {
  const url = useUrl();
  const router = useRouter();
  const by = (url.get("sort") ?? "id") as "id" | "price" | "scheduled_close" | "price_known_at";
  const down = url.get("up") !== "1" && by !== "id";
  const status = url.get("status") as "open" | "ended" | null;
  const query = { sort: by, descending: down, limit: LIMIT, q: url.get("q") || undefined, status: status ?? undefined };
  const list = usePages("/api/archives/{archive}/markets", { params: { path: { archive }, query } });
  const rows = list.rows as MarketRow[];
  const columns: Column<MarketRow>[] = [
    {
      key: "question", head: "Question", wide: true, sort: "id", width: "46%",
      cell: (row) => (
        <span className="block min-[720px]:max-w-[46vw]">
          <Link className="name block min-[720px]:truncate" href={to("/market/", { id: row.id })}>{row.question ?? row.id}</Link>
          <span className="font-mono text-11 text-ink-3">{shortId(row.id)}</span>
        </span>
      ),
    },
    { key: "venue", head: "Venue", skip: true, cell: (row) => row.venue },
    { key: "price", head: "Last price", small: "of YES", num: true, sort: "price", label: "Price", cell: (row) => fixed(row.price, 3) },
    { key: "age", head: "Price age", num: true, skip: true, cell: (row) => span(row.price_age) },
    { key: "close", head: "Closes", sort: "scheduled_close", label: "Closes", cell: (row) => day(row.scheduled_close) },
    { key: "outcome", head: "Outcome", cell: (row) => <Outcome value={row.payout} /> },
  ];
  return (
    <>
      <Title lede={<>The markets of archive <b>{archive}</b> as they stood at the end of its record. No backtest over it was chosen, so there are no forecasts to show.</>}>Markets</Title>
      <div className="chips">
        <Words url={url} />
        <Chips label="Status" name="status" values={[["open", "open"], ["ended", "ended"]]} url={url} />
      </div>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.mutate()} what="The markets" />
      ) : list.isLoading ? (
        <Loading heights={[700]} />
      ) : (
        <Panel title={counted(list.total ?? rows.length, "market")} right={<Exports path={`/api/archives/${archive}/markets`} name={`${archive}-markets`} />} pad={false}>
          <DataTable
            caption="Markets"
            columns={columns}
            rows={rows}
            id={(row) => row.id}
            sorting={{ by, down }}
            onSort={(next) => url.set({ sort: next.by, up: next.down ? null : "1" })}
            onOpen={(row) => router.push(to("/market/", { id: row.id }))}
            onEnd={list.all ? undefined : list.more}
            keys
            cards
            rowHeight={48}
          />
        </Panel>
      )}
    </>
  );
}
