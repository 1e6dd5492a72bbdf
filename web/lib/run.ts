"use client";
/** The run that a screen is about: the one in the address, else the newest with a leaderboard. */
import { useGet } from "./api";
import type { RunWhole } from "./schema";
import { SCORED } from "./words";
import { useUrl } from "./url";

export interface Chosen {
  id: string | null;
  run: RunWhole | undefined;
  /** No run has a leaderboard yet. */
  none: boolean;
  loading: boolean;
  error: unknown;
  retry: () => void;
}

export function useRun(scored = true): Chosen {
  const url = useUrl();
  const named = url.get("run");
  const list = useGet("/api/runs", named ? null : { params: { query: { limit: 100 } } });
  const found = list.data?.items.find(
    (run) => !scored || (SCORED.includes(run.kind) && run.status === "success"),
  );
  const id = named ?? found?.run_id ?? null;
  const run = useGet("/api/runs/{run_id}", id ? { params: { path: { run_id: id } } } : null);
  return {
    id,
    run: run.data,
    none: !named && list.data !== undefined && !found,
    loading: list.isLoading || run.isLoading,
    error: list.error ?? run.error,
    retry: () => void (list.mutate(), run.mutate()),
  };
}

export type World = "simulated" | "recorded" | "live";

/** What kind of world a run was made in, from its scores. */
export function worldOf(run: RunWhole | undefined): World | null {
  const text = run?.scores?.world_kind ?? "";
  return text.startsWith("simulated") ? "simulated" : text.startsWith("recorded") ? "recorded" : null;
}

/** The same of a run that has no scores: its archive says it; one without an archive was live. */
export function useWorld(run: RunWhole | undefined): World | null {
  const found = worldOf(run);
  const named = !found && run?.archive ? run.archive : null;
  const list = useGet("/api/archives", named ? {} : null);
  if (found || !run) return found;
  if (named) return list.data?.items.find((one) => one.name === named)?.kind ?? null;
  return run.archive_digest === "" ? "live" : null;
}

/** What a baseline of a run does, in a sentence; undefined for the forecasters of others. */
export function useAbouts(run: RunWhole): (name: string) => string | undefined {
  const asked = run.scores?.decisions?.models;
  const list = useGet("/api/forecasters", asked ? {} : null);
  const about = (scheme: string) => list.data?.items.find((one) => one.scheme === scheme)?.about;
  return (name) => {
    if (!asked || !(`baseline:${name}` in asked)) return undefined;
    if (name === "recorded:truth" && worldOf(run) === "simulated") return "The probabilities from which this simulated world was drawn: nobody can do better here.";
    return about(name) ?? about(name.split(":")[0]!);
  };
}
