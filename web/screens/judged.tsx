"use client";
/** What Score mine shows of a file that was scored: the verdict, its reasons, the rows left out. */
import { said } from "@/lib/api";
import { count, counted } from "@/lib/format";
import { usePages } from "@/lib/pages";
import type { RejectedRow, RunWhole } from "@/lib/schema";
import { useUrl } from "@/lib/url";
import { ValidityCard } from "@/parts/card";
import { Exports, Panel } from "@/parts/small";
import { DataTable, type Column } from "@/parts/table";
import { BoardTable, Headline, Warnings, Why } from "./leaderboard";

/** `children`: where the next file is dropped. */
export function Judged({ run, children }: { run: RunWhole; children: React.ReactNode }) {
  const url = useUrl();
  const scored = run.scores?.validity.n_forecasts?.value;
  return (
    <>
      <Headline run={run} />
      {run.warnings.length > 0 && <Warnings run={run} />}
      <ValidityCard card={run.card} kept={run.kept} />
      <BoardTable run={run} id={run.run_id} url={url} selected={(url.get("sel") ?? "").split(",").filter(Boolean)} />
      <Why run={run} id={run.run_id} />
      <div className="grid items-start gap-6 min-[900px]:grid-cols-[minmax(0,1fr)_400px]">
        <Rejected run={run} scored={typeof scored === "number" ? scored : null} />
        {children}
      </div>
    </>
  );
}

function Rejected({ run, scored }: { run: RunWhole; scored: number | null }) {
  const list = usePages("/api/runs/{run_id}/rejected", { params: { path: { run_id: run.run_id }, query: { limit: 200 } } });
  const rows = list.rows as RejectedRow[];
  const n = list.total ?? rows.length;
  const columns: Column<RejectedRow>[] = [
    { key: "line", head: "Line", num: true, width: "1%", label: "Line", cell: (row) => count(row.line) },
    { key: "row", head: "Row", wide: true, cell: (row) => <code className="[overflow-wrap:anywhere]">{[row.id, row.time, row.probability].map((v) => v ?? "").join(",")}</code> },
    { key: "reason", head: "Reason", wide: true, cell: (row) => row.reason },
  ];
  return (
    <Panel title="Rows not scored" hint={scored !== null ? `${count(n)} of ${counted(scored + n, "row")}` : undefined} right={n > 0 && <Exports path={`/api/runs/${run.run_id}/rejected`} name={`${run.run_id}-rejected`} />} pad={false}>
      {list.error ? <p className="px-5 pb-5">{said(list.error)}</p> : n === 0 && !list.isLoading ? <p className="px-5 pb-5 text-ink-2">Every row was scored.</p> : <DataTable caption="Rows not scored" columns={columns} rows={rows} id={(row) => String(row.line)} onEnd={list.all ? undefined : list.more} cards />}
    </Panel>
  );
}
