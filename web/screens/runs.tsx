"use client";
/** Every run of the home folder. */
import Link from "@/parts/link";
import { useRouter } from "next/navigation";
import { counted } from "@/lib/format";
import { usePages } from "@/lib/pages";
import type { RunRow } from "@/lib/schema";
import { to, useUrl } from "@/lib/url";
import { KINDS } from "@/lib/words";
import { Main } from "@/parts/shell";
import { CopyLink, Exports, Panel, Title } from "@/parts/small";
import { runColumns } from "@/parts/run-columns";
import { Empty, Failed, Loading } from "@/parts/states";
import { DataTable } from "@/parts/table";

const STATES = ["running", "success", "stopped", "cancelled", "failed", "unfinished"];
type Sort = "created_at" | "run_id" | "kind" | "status" | "cost" | "calls";
const SORTS: Record<string, Sort> = { run: "run_id", kind: "kind", state: "status", calls: "calls", cost: "cost", at: "created_at" };

export function Runs() {
  const url = useUrl();
  const router = useRouter();
  const by = (url.get("sort") ?? "created_at") as Sort;
  const down = url.get("up") !== "1";
  const [kind, status] = [url.get("kind") ?? undefined, url.get("status") ?? undefined];
  const list = usePages("/api/runs", { params: { query: { kind, status, sort: by, descending: down, limit: 100 } } });
  const rows = list.rows as RunRow[];
  const columns = runColumns().map((column) => ({ ...column, sort: SORTS[column.key] }));
  const chip = (name: string, value: string, text: string, held: string | undefined) => (
    <button key={value} type="button" className="chip" aria-pressed={held === value} onClick={() => url.set({ [name]: held === value ? null : value })}>{text}</button>
  );
  return (
    <Main busy={list.isLoading}>
      <Title lede="A run that is stopped or killed goes on where it stood: what was answered and paid is never asked again.">Runs</Title>
      <div className="chips">
        {Object.entries(KINDS).map(([value, text]) => chip("kind", value, text, kind))}
        <span className="mx-1 h-5 w-px bg-line-2" aria-hidden="true" />
        {STATES.map((value) => chip("status", value, value, status))}
        <span className="ml-auto flex gap-0.5"><CopyLink /><Exports path="/api/runs" name="runs" forms={["json"]} /></span>
      </div>
      {list.error ? (
        <Failed error={list.error} retry={() => void list.mutate()} what="The runs" />
      ) : list.isLoading ? (
        <Loading heights={[400]} />
      ) : !rows.length ? (
        kind || status ? (
          <Empty title="No run fits these filters"><button type="button" className="btn" onClick={() => url.set({ kind: null, status: null })}>Show all</button></Empty>
        ) : (
          <Empty title="Nothing was run yet" text="Start with a dry run: it says what would be asked, what that costs, and what the validity card would lack." command="beforehand backtest run --forecasters market,drift --dry-run">
            <Link className="btn btn-main" href="/new/">New run</Link>
          </Empty>
        )
      ) : (
        <Panel title={counted(list.total ?? rows.length, "run")} pad={false}>
          <DataTable
            caption="Runs" columns={columns} rows={rows} id={(run) => run.run_id} sorting={{ by, down }}
            onSort={(next) => url.set({ sort: next.by, up: next.down ? null : "1" })}
            onOpen={(run) => router.push(to("/run/", { run: run.run_id }))}
            onEnd={list.all ? undefined : list.more} keys cards
          />
        </Panel>
      )}
    </Main>
  );
}
