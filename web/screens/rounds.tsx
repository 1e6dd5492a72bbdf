"use client";
/** Rounds of open events: what was frozen, sealed before the outcome, and resolved. */
import { useGet } from "@/lib/api";
import { count, counted, day, fixed, shortId } from "@/lib/format";
import { usePages } from "@/lib/pages";
import type { RoundEvent, RoundRow } from "@/lib/schema";
import { useUrl } from "@/lib/url";
import { Main } from "@/parts/shell";
import { CopyLink, Exports, Outcome, Panel, Title } from "@/parts/small";
import { Empty, Failed, Loading } from "@/parts/states";
import { DataTable, type Column } from "@/parts/table";

const COLUMNS: Column<RoundRow>[] = [
  { key: "name", head: "Round", wide: true, label: "Round", cell: (row) => <b className="font-mono">{row.name}</b> },
  { key: "made", head: "Frozen", skip: true, cell: (row) => <span className="tnum whitespace-nowrap">{row.made_at ? day(row.made_at) : "–"}</span> },
  { key: "events", head: "Events", num: true, label: "Events", cell: (row) => count(row.events) },
  { key: "sealed", head: "Sealed", small: "forecasts", num: true, label: "Sealed", cell: (row) => count(row.sealed) },
  { key: "resolved", head: "Resolved", small: "events", num: true, label: "Resolved", cell: (row) => count(row.resolved) },
  { key: "by", head: "By", skip: true, cell: (row) => <span className="block max-w-[320px] truncate" title={row.predictors.join(", ")}>{row.predictors.join(", ") || "–"}</span> },
  { key: "left", head: "Left out", num: true, skip: true, cell: (row) => <span title={Object.entries(row.left_out).map(([why, n]) => `${n} ${why}`).join("\n")}>{count(Object.values(row.left_out).reduce((a, b) => a + b, 0))}</span> },
  { key: "state", head: "State", label: "State", cell: (row) => row.problem ? <span className="text-worse">{row.problem}</span> : row.changed ? <b className="text-worse">changed after it was frozen</b> : "as frozen" },
];

export function Rounds() {
  const url = useUrl();
  const list = usePages("/api/rounds", { params: { query: { limit: 100 } } });
  const log = useGet("/api/rounds/log", {});
  const rows = list.rows as RoundRow[];
  const chosen = rows.find((row) => row.name === url.get("round")) ?? rows[0];
  const problems = log.data?.problems ?? [];
  return (
    <Main busy={list.isLoading}>
      <Title lede="Open events, frozen; forecasts of them, sealed before anybody could know the end; and how they ended.">Rounds</Title>
      <div className="chips"><span className="ml-auto flex gap-0.5"><CopyLink /><Exports path="/api/rounds" name="rounds" forms={["json"]} /></span></div>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.mutate()} what="The rounds" />
      ) : list.isLoading ? (
        <Loading heights={[200, 400]} label="Loading rounds" />
      ) : !chosen ? (
        <Empty title="There is no round yet" text="A crawl lists what is open on the venues and freezes it as events; the forecasters of a backtest then answer them, sealed." command="beforehand bench crawl" />
      ) : (
        <>
          <Panel title={counted(list.total ?? rows.length, "round")} pad={false}>
            <DataTable caption="Rounds" columns={COLUMNS} rows={rows} id={(row) => row.name} onOpen={(row) => url.set({ round: row.name })} onEnd={list.all ? undefined : list.more} keys cards />
          </Panel>
          {log.data && log.data.lines > 0 && (
            <p className="my-3 text-13 text-ink-2">
              {counted(log.data.lines, "line")} in the sealed log; its last digest: <code className="break-all font-mono text-11">{log.data.head}</code>. Compare it with one that was published.
            </p>
          )}
          {problems.map((text) => <p key={text} className="my-2 font-semibold text-worse" role="alert">Not as sealed: {text}</p>)}
          <Events key={chosen.name} round={chosen} />
        </>
      )}
    </Main>
  );
}

function Events({ round }: { round: RoundRow }) {
  const list = usePages("/api/rounds/{name}/events", { params: { path: { name: round.name }, query: { limit: 100 } } });
  const rows = list.rows as RoundEvent[];
  const columns: Column<RoundEvent>[] = [
    {
      key: "question", head: "Event", wide: true, label: "Event",
      cell: (row) => (
        <span className="block min-[720px]:max-w-[42vw]">
          <span className="block min-[720px]:truncate" title={row.question}>{row.question}</span>
          <span className="font-mono text-11 text-ink-3">{shortId(row.id)}</span>
        </span>
      ),
    },
    { key: "due", head: "Due", skip: true, cell: (row) => <span className="tnum whitespace-nowrap">{row.resolution_date ? day(row.resolution_date) : "–"}</span> },
    { key: "price", head: "Price", small: "when frozen", num: true, label: "Price", cell: (row) => fixed(row.baseline_probability, 3) },
    {
      key: "said", head: "Sealed", label: "Sealed",
      cell: (row) => row.forecasts.length ? <span className="flex flex-wrap gap-x-3">{row.forecasts.map((one) => <span key={one.predictor + one.sealed_at} title={`sealed ${one.sealed_at}`} className="whitespace-nowrap">{one.predictor} <b className="tnum">{fixed(one.probability, 3)}</b></span>)}</span> : "–",
    },
    { key: "outcome", head: "Outcome", label: "Outcome", cell: (row) => row.outcome === null ? <span className="text-ink-3">open</span> : <Outcome value={row.outcome} /> },
  ];
  return (
    <Panel title={`Events of ${round.name}`} pad={false}>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.mutate()} what="The events" />
      ) : list.isLoading ? (
        <Loading heights={[300]} label="Loading events" />
      ) : (
        <DataTable caption={`Events of ${round.name}`} columns={columns} rows={rows} id={(row) => row.id} onEnd={list.all ? undefined : list.more} cards />
      )}
    </Panel>
  );
}
