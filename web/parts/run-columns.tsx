import { briefly, count, dollars, instant } from "@/lib/format";
import type { RunRow } from "@/lib/schema";
import { to } from "@/lib/url";
import { KINDS } from "@/lib/words";
import Link from "./link";
import { RunState } from "./small";
import type { Column } from "./table";

/** The columns of a list of runs. */
export function runColumns(): Column<RunRow>[] {
  return [
    { key: "run", head: "Run", cell: (run) => <><Link className="font-mono text-12" href={to("/run/", { run: run.run_id })}>{run.run_id}</Link><span className="sub">{briefly(run.subject, 64)}</span></> },
    { key: "kind", head: "Kind", skip: true, cell: (run) => KINDS[run.kind] ?? run.kind },
    { key: "headline", head: "Verdict", wide: true, skip: true, cell: (run) => run.headline ?? <span className="text-ink-3">–</span> },
    { key: "state", head: "State", cell: (run) => <RunState value={run.status} /> },
    { key: "done", head: "Steps done", num: true, label: "Steps", cell: (run) => (run.total ? `${count(run.done)} of ${count(run.total)}` : "–") },
    { key: "calls", head: "Calls", num: true, skip: true, cell: (run) => count(run.calls) },
    { key: "cost", head: "Cost", num: true, skip: true, cell: (run) => dollars(run.cost) },
    { key: "at", head: "Started", label: "Started", cell: (run) => <span className="tnum whitespace-nowrap">{instant(run.created_at)}{run.started_by && <span className="sub">by {run.started_by}</span>}</span> },
  ];
}
