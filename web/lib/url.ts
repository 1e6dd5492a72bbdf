"use client";
/** All state of a screen stands in its address: filters, sorting, tab, selection, t. */
import { useSearchParams } from "next/navigation";
import { useCallback, useMemo } from "react";

export type Changes = Record<string, string | null | undefined>;

export interface Url {
  get(name: string): string | null;
  /** The value at this moment: what is drawn may lag behind keys that follow each other fast. */
  now(name: string): string | null;
  /** `push` makes a step for Back; `replace` does not (while something is dragged or typed). */
  set(changes: Changes, how?: "push" | "replace"): void;
}

function changed(search: string, changes: Changes): string {
  const next = new URLSearchParams(search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, value);
  }
  const text = next.toString();
  return text ? `?${text}` : "";
}

export function useUrl(): Url {
  const params = useSearchParams();
  const set = useCallback((changes: Changes, how: "push" | "replace" = "push") => {
    const { pathname, search, hash } = window.location;
    const address = changed(search, changes);
    if (address !== search) window.history[`${how}State`](null, "", pathname + address + hash);
  }, []);
  return useMemo(
    () => ({ get: (name) => params.get(name), now: (name) => new URLSearchParams(window.location.search).get(name), set }),
    [params, set],
  );
}

/** An address of another screen. */
export function to(path: string, query: Changes = {}): string {
  return path + changed("", query);
}
