"use client";
/** Search over markets and runs, and the list of keys. */
import { useRouter } from "next/navigation";
import { useEffect, useState } from "react";
import { useGet } from "@/lib/api";
import { day } from "@/lib/format";
import { to, useUrl } from "@/lib/url";
import { SCORED } from "@/lib/words";
import { Boundary } from "./boundary";
import { Dialog } from "./dialog";

const KEYS: [string, string][] = [
  ["/", "search markets and runs"],
  ["?", "this list"],
  ["j  k", "next and previous row; on a market, next and previous forecast"],
  ["Enter", "open the row"],
  ["x", "select the row (leaderboard)"],
  ["c", "compare the two selected rows"],
  ["[  ]", "older and newer run"],
  ["← →", "move t by an hour; PageUp and PageDown by a day; Home, End"],
  ["Esc", "close"],
];

const MOST_WORLDS = 3;

/** The best markets of an archive for some words, or by their id. */
function useMarkets(archive: string | undefined, words: string) {
  return useGet("/api/archives/{archive}/markets", archive && words ? { params: { path: { archive }, query: { q: words, limit: 6 } } } : null, { keepPreviousData: true });
}

/** The search and the list of keys, open or not. */
export function Asides({ open, onClose }: { open: "search" | "keys" | "closed"; onClose: () => void }) {
  return (
    <Boundary what="The search" onLeave={onClose}>
      <Search open={open === "search"} onClose={onClose} />
      <Keys open={open === "keys"} onClose={onClose} />
    </Boundary>
  );
}

function Search({ open, onClose }: { open: boolean; onClose: () => void }) {
  const router = useRouter();
  const url = useUrl();
  const kept = { run: url.get("run"), f: url.get("f") };
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  useEffect(() => {
    if (!open) setText("");
  }, [open]);
  useEffect(() => {
    const waiting = setTimeout(() => setAsked(text.trim()), 200);
    return () => clearTimeout(waiting);
  }, [text]);
  const worlds = useGet("/api/archives", open ? { params: { query: { limit: MOST_WORLDS } } } : null);
  const archives = worlds.data?.items ?? [];
  // Each archive is asked for itself: always so many, as hooks must be.
  const answers = [useMarkets(archives[0]?.name, asked), useMarkets(archives[1]?.name, asked), useMarkets(archives[2]?.name, asked)];
  const runs = useGet("/api/runs", open ? { params: { query: { limit: 100 } } } : null);
  const found = (runs.data?.items ?? []).filter((run) => asked && run.run_id.includes(asked)).slice(0, 8);
  const go = (address: string) => {
    onClose();
    router.push(address);
  };
  // A market opens in the run of the address if that is of its archive, else in the newest of it.
  const runOf = (digest: string) => {
    const those = (runs.data?.items ?? []).filter((run) => run.archive_digest === digest && SCORED.includes(run.kind) && run.status === "success");
    return (those.find((run) => run.run_id === kept.run) ?? those[0])?.run_id ?? null;
  };
  // An answer is kept while the next is under way; of an archive that is not there (any more) it is none.
  const hits = (open && asked ? archives : []).flatMap((world, i) => (answers[i]?.data?.items ?? []).map((market) => ({ ...market, archive: world.name, run: runOf(world.digest ?? "") }))).slice(0, 12);
  const waiting = text.trim() !== asked || (asked !== "" && (worlds.isLoading || answers.some((answer) => answer.isLoading || answer.isValidating)));
  return (
    <Dialog open={open} onClose={onClose} label="Search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (hits[0]) go(to("/market/", { id: hits[0].id, run: hits[0].run, f: kept.f }));
          else if (found[0]) go(to("/run/", { run: found[0].run_id }));
        }}
      >
        <label className="field">
          Search markets and runs
          <input className="input" autoFocus value={text} onChange={(e) => setText(e.target.value)} placeholder="words of a question, an id, or a run's name" />
        </label>
      </form>
      <ul className="mt-3 grid gap-1" aria-label="Found">
        {found.map((run) => (
          <li key={run.run_id}>
            <button type="button" className="w-full rounded-md px-2 py-1.5 text-left hover:bg-hover" onClick={() => go(to("/run/", { run: run.run_id }))}>
              <span className="note">run </span>
              {run.run_id} <span className="note">{run.kind}</span>
            </button>
          </li>
        ))}
        {hits.map((market) => (
          <li key={market.archive + market.id}>
            <button type="button" className="w-full rounded-md px-2 py-1.5 text-left hover:bg-hover" onClick={() => go(to("/market/", { id: market.id, run: market.run, f: kept.f }))}>
              {market.question ?? market.id} <span className="note">{market.id}, closes {day(market.scheduled_close)}{archives.length > 1 && `, in ${market.archive}`}</span>
            </button>
          </li>
        ))}
      </ul>
      {text.trim() !== "" && !hits.length && !found.length && (
        <p className="note mt-2" role="status">{waiting ? "Searching…" : <>No run of that name, and no market with these words or this id in {archives.length ? archives.map((one) => one.name).join(", ") : "this home folder"}.</>}</p>
      )}
    </Dialog>
  );
}

function Keys({ open, onClose }: { open: boolean; onClose: () => void }) {
  return (
      <Dialog open={open} onClose={onClose} label="Keys">
        <h2 className="mb-3">Keys</h2>
        <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-2">
          {KEYS.map(([key, about]) => (
            <div key={key} className="contents">
              <dt>{key.split(/\s+/).map((one) => <kbd key={one} className="mr-1">{one}</kbd>)}</dt>
              <dd className="text-ink-2">{about}</dd>
            </div>
          ))}
        </dl>
      </Dialog>
  );
}
