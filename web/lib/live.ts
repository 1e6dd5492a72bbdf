"use client";
/** A run's events as they happen. After a break it goes on behind the last one that it has, so that
 * none is missed and none comes twice, also when the server was restarted in between. */
import { useEffect, useState } from "react";
import { authorization } from "./api";
import type { EventRow } from "./schema";

export interface Live {
  events: EventRow[];
  /** `on` is connected, `away` tries again (since `since`), `over` has all events of an ended run. */
  link: "opening" | "on" | "away" | "over";
  since: number | null;
}

const EMPTY: Live = { events: [], link: "opening", since: null };
const [WAIT_MS, DRAW_MS] = [1000, 120];

export function useEvents(runId: string | null): Live {
  const [live, setLive] = useState<Live>(EMPTY);
  useEffect(() => {
    if (!runId) return;
    setLive(EMPTY);
    const stop = new AbortController();
    const held: EventRow[] = [];
    const draw = (link: Live["link"]) =>
      setLive((before) => ({ events: [...held], link, since: link === "away" ? (before.since ?? Date.now()) : null }));
    let waiting: ReturnType<typeof setTimeout> | undefined;
    const show = (link: Live["link"]) => {
      // Thousands of events may come at once: what is drawn follows a few times a second.
      clearTimeout(waiting);
      if (link !== "on") draw(link);
      else waiting = setTimeout(() => draw(link), DRAW_MS);
    };
    void (async () => {
      while (!stop.signal.aborted) {
        try {
          const over = await follow(runId, held, stop.signal, () => show("on"));
          if (over) {
            show("over");
            if (!mayGoOn(held.at(-1))) return;
            await new Promise((go) => setTimeout(go, 2 * WAIT_MS)); // It may be resumed.
            continue;
          }
          show("on"); // The stream ended: a run that has ended answers so when it is asked again.
        } catch {
          if (stop.signal.aborted) return;
          show("away");
        }
        await new Promise((go) => setTimeout(go, WAIT_MS));
      }
    })();
    return () => {
      stop.abort();
      clearTimeout(waiting);
    };
  }, [runId]);
  return live;
}

/** False once a run has ended for good; what was stopped, cancelled or failed may be resumed. */
function mayGoOn(last: EventRow | undefined): boolean {
  return last !== undefined && (last.detail as { status?: string }).status !== "success";
}

/** One connection. True when the server says that there is no more to come. */
async function follow(runId: string, held: EventRow[], signal: AbortSignal, changed: () => void): Promise<boolean> {
  const headers = { ...authorization(), "Last-Event-ID": String(held.at(-1)?.number ?? 0) };
  const answer = await fetch(`/api/runs/${encodeURIComponent(runId)}/events`, { headers, signal, cache: "no-store" });
  if (answer.status === 204) return true;
  if (answer.status === 404) return true;
  if (!answer.ok || !answer.body) throw new Error(String(answer.status));
  changed();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return false;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop()!;
    for (const part of parts) {
      const data = part.split("\n").find((line) => line.startsWith("data: "));
      if (!data) continue;
      const event = JSON.parse(data.slice(6)) as EventRow;
      if (event.number > (held.at(-1)?.number ?? 0)) held.push(event);
    }
    changed();
  }
}
