/** What a run's events tell: steps, calls, resumes, and the times in which no process was alive. */
import { ms } from "./format";
import type { EventRow } from "./schema";

export interface Told {
  done: { t: number; done: number }[];
  gaps: [number, number][];
  running: Set<string>;
  finished: Set<string>;
  failed: Set<string>;
  resumed: number;
  answered: number;
  /** Calls that were sent again although they had been answered: must be none. */
  repeated: number;
  /** Calls that were in flight when a process died, and were sent again. */
  again: number;
  againSteps: Set<string>;
  spent: number;
  ended: boolean;
}

export function tell(events: EventRow[]): Told {
  const told: Told = { done: [], gaps: [], running: new Set(), finished: new Set(), failed: new Set(), resumed: 0, answered: 0, repeated: 0, again: 0, againSteps: new Set(), spent: 0, ended: false };
  const calls = new Map<string, "sent" | "done" | "refused">();
  let last = 0;
  for (const event of events) {
    const at = ms(event.at);
    const step = event.task_id ?? "";
    const detail = event.detail as Record<string, unknown>;
    if (event.what === "run begun" || event.what === "run resumed" || event.what === "run taken over") {
      if (event.what !== "run begun") {
        told.resumed += 1;
        if (last) told.gaps.push([last, at]);
      }
      told.running.clear();
      told.ended = false;
    } else if (event.what === "run ended") told.ended = true;
    else if (event.what === "step begun") told.running.add(step);
    else if (event.what === "step ended") {
      told.running.delete(step);
      (detail.status === "success" ? told.finished : told.failed).add(step);
      if (detail.status === "success") told.failed.delete(step);
    } else if (event.what === "call sent") {
      const key = String(detail.key);
      if (calls.get(key) === "done") told.repeated += 1;
      else if (calls.get(key) === "sent") {
        told.again += 1;
        told.againSteps.add(step);
      }
      if (calls.get(key) !== "done") calls.set(key, "sent");
    } else if (event.what === "call ended") {
      const key = String(detail.key);
      if (detail.state === "done") {
        told.answered += 1;
        told.spent += typeof detail.cost === "number" ? detail.cost : 0;
        calls.set(key, "done");
      } else if (calls.get(key) !== "done") calls.set(key, "refused");
    }
    last = at;
    told.done.push({ t: at, done: told.finished.size });
  }
  return { ...told, done: thin(told.done) };
}

/** At most some hundreds of points: those at which the number of steps changed. */
function thin(points: { t: number; done: number }[]): { t: number; done: number }[] {
  const changed = points.filter((point, i) => i === 0 || i === points.length - 1 || point.done !== points[i - 1]!.done);
  const every = Math.ceil(changed.length / 800);
  return changed.filter((_, i) => i % every === 0 || i === changed.length - 1);
}
