"use client";
/** The steps of a run, by what they do, as its events have them. */
import { useEffect, useMemo } from "react";
import { said } from "@/lib/api";
import { count, counted, span } from "@/lib/format";
import type { Live } from "@/lib/live";
import { usePages } from "@/lib/pages";
import type { RunWhole, StepRow } from "@/lib/schema";
import type { Told } from "@/lib/told";
import { useUrl } from "@/lib/url";
import { Panel, RunState } from "./small";
import { DataTable, type Column } from "./table";

/** A step's state, from the events where these know more than the list that was fetched. */
function stateOf(step: StepRow, told: Told): string {
  if (told.finished.has(step.id)) return "success";
  if (told.failed.has(step.id)) return "failed";
  if (told.running.has(step.id)) return told.ended ? "waiting" : "running";
  return step.status;
}

const COLORS: Record<string, string> = {
  success: "border-beats bg-[var(--beats-soft)]",
  running: "border-accent bg-accent-soft",
  failed: "border-worse bg-[var(--worse-soft)]",
  waiting: "border-line-2 bg-surface",
};

export function Steps({ run, told, live }: { run: RunWhole; told: Told; live: Live }) {
  const url = useUrl();
  const list = usePages("/api/runs/{run_id}/steps", { params: { path: { run_id: run.run_id }, query: { limit: 1000 } } });
  useEffect(() => {
    if (live.link === "over") void list.mutate();
  }, [live.link]);
  const rows = list.rows as StepRow[];
  const groups = useMemo(() => {
    const found = new Map<string, StepRow[]>();
    for (const row of rows) found.set(row.action, [...(found.get(row.action) ?? []), row]);
    return [...found];
  }, [rows]);
  const chosen = url.get("step");
  const states = new Map<string, number>();
  for (const row of rows) states.set(stateOf(row, told), (states.get(stateOf(row, told)) ?? 0) + 1);
  const columns: Column<StepRow>[] = [
    { key: "id", head: "Step", cell: (step) => <code>{step.id}</code> },
    { key: "action", head: "Does", skip: true, cell: (step) => step.action },
    { key: "state", head: "State", cell: (step) => <RunState value={stateOf(step, told)} /> },
    { key: "deps", head: "Waits for", num: true, skip: true, cell: (step) => (step.deps.length > 2 ? counted(step.deps.length, "step") : step.deps.join(", ") || "–") },
    { key: "time", head: "Took", num: true, label: "Took", cell: (step) => span(step.duration_ms === null ? null : step.duration_ms / 1000) },
    { key: "error", head: "Error", wide: true, cell: (step) => step.error && <span className="text-worse">{step.error}</span> },
  ];
  const failing = rows.some((step) => step.error);
  const table = chosen ? rows.filter((step) => step.action === chosen) : rows;
  if (list.error) return <Panel title="Steps"><p>{said(list.error)}</p></Panel>;
  return (
    <Panel title="Steps" hint={counted(list.total ?? rows.length, "step")} pad={false}>
      <div className="flex flex-wrap items-center gap-x-3 gap-y-4 px-5 pb-4 max-[720px]:px-4">
        {groups.map(([action, steps], i) => (
          <div key={action} className="contents">
            {i > 0 && <span className="text-ink-3" aria-hidden="true">→</span>}
            <button type="button" className="grid gap-1.5 rounded-md p-1 text-left hover:bg-hover" aria-pressed={chosen === action} onClick={() => url.set({ step: chosen === action ? null : action })}>
              <span className="note">{action}{steps.length > 1 ? `, ${counted(steps.length, "step")}` : ""}</span>
              <span className="flex max-w-[440px] flex-wrap gap-[3px]">
                {chunks(steps, 200).map((part) => {
                  const state = worst(part.map((step) => stateOf(step, told)));
                  const again = part.some((step) => told.againSteps.has(step.id));
                  return (
                    <span key={part[0]!.id} title={part.length > 1 ? `${part[0]!.id} to ${part.at(-1)!.id}: ${state}` : `${part[0]!.id}: ${state}`} className={`grid size-[18px] place-items-center rounded-[3px] border-[1.5px] ${COLORS[state] ?? COLORS.waiting}`}>
                      {again && <i className="size-1.5 rounded-full bg-warn" />}
                    </span>
                  );
                })}
              </span>
            </button>
          </div>
        ))}
      </div>
      <p className="legend px-5 pb-3 max-[720px]:px-4">
        {["success", "running", "failed", "waiting"].map((state) => (
          <span key={state} data-state={state} data-n={states.get(state) ?? 0}><i className={`inline-block size-3 rounded-[3px] border-[1.5px] ${COLORS[state]}`} />{state === "success" ? "done" : state} {count(states.get(state) ?? 0)}</span>
        ))}
        <span><i className="inline-block size-1.5 rounded-full bg-warn" />a call was sent again</span>
      </p>
      <div className="max-h-[520px] overflow-y-auto border-t border-line">
        <DataTable caption="Steps" columns={failing ? columns : columns.slice(0, 5)} rows={table.slice(0, 400)} id={(step) => step.id} cards />
      </div>
      {table.length > 400 && <p className="note px-5 py-3">The first 400 of {count(table.length)}.</p>}
    </Panel>
  );
}

function chunks<T>(rows: T[], most: number): T[][] {
  const size = Math.ceil(rows.length / most) || 1;
  return Array.from({ length: Math.ceil(rows.length / size) }, (_, i) => rows.slice(i * size, (i + 1) * size));
}

const worst = (states: string[]) => ["failed", "running", "waiting", "success"].find((state) => states.includes(state)) ?? "waiting";
