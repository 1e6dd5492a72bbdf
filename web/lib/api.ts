"use client";
/** The API, typed from its OpenAPI document. A token, where the server needs one, is kept for the
 * browser tab alone. */
import createClient, { type MaybeOptionalInit, type Middleware } from "openapi-fetch";
import useSWR, { type SWRConfiguration, type SWRResponse } from "swr";
import useSWRInfinite from "swr/infinite";
import type { paths, Problem } from "./schema";

const TOKEN = "beforehand-token";

export function heldToken(): string | null {
  return typeof window === "undefined" ? null : window.sessionStorage.getItem(TOKEN);
}

export function holdToken(token: string): void {
  window.sessionStorage.setItem(TOKEN, token);
}

const withToken: Middleware = {
  onRequest({ request }) {
    const token = heldToken();
    if (token) request.headers.set("Authorization", `Bearer ${token}`);
    return request;
  },
};

export const client = createClient<paths, "application/json">({ baseUrl: "" });
client.use(withToken);

type GetPath = { [P in keyof paths]: paths[P] extends { get: object } ? P : never }[keyof paths];
type Answer<P extends GetPath> = paths[P] extends {
  get: { responses: { 200: { content: { "application/json": infer Data } } } };
}
  ? Data
  : never;
type Row<P extends GetPath> = Answer<P> extends { items: (infer Item)[] } ? Item : never;
type Init<P extends GetPath> = MaybeOptionalInit<paths[P], "get">;

async function get<P extends GetPath>(path: P, init: Init<P>): Promise<Answer<P>> {
  // The pair is checked where the hooks are called; here it is any of them.
  const { data, error } = await client.GET(path as "/api/health", init as Record<string, never>);
  if (error) throw error;
  return data as Answer<P>;
}

/** What the server answers to a GET; a null instead of parameters asks nothing. */
export function useGet<P extends GetPath>(
  path: P,
  init: Init<P> | null,
  options?: SWRConfiguration<Answer<P>, unknown>,
): SWRResponse<Answer<P>, unknown> {
  return useSWR<Answer<P>, unknown>(init && [path, init], () => get(path, init!), {
    revalidateOnFocus: false,
    onErrorRetry: retry,
    ...options,
  });
}

/** A list, page by page: its rows so far, and how to get more. */
export function usePages<P extends GetPath>(path: P, init: Init<P> | null) {
  const pages = useSWRInfinite<Answer<P>, unknown>(
    (_: number, before: Answer<P> | null) => {
      const next = (before as { next: string | null } | null)?.next;
      if (!init || (before && !next)) return null;
      const { params } = init as { params: { query?: object } };
      return [path, { ...init, params: { ...params, query: { ...params.query, ...(next && { cursor: next }) } } }];
    },
    ([path, init]: [P, Init<P>]) => get(path, init),
    { revalidateOnFocus: false, revalidateFirstPage: false, onErrorRetry: retry },
  );
  const rows = (pages.data ?? []).flatMap((page) => (page as { items: Row<P>[] }).items);
  const last = pages.data?.at(-1) as { next: string | null; total: number | null } | undefined;
  const { size, setSize, isLoading, isValidating, error, mutate } = pages;
  const more = () => void (last?.next && !isValidating && setSize(size + 1));
  return { rows, total: last?.total ?? null, all: last?.next === null, more, isLoading, error, mutate };
}

/** Only a busy server is asked again by itself; everything else says what is wrong. */
const retry: NonNullable<SWRConfiguration["onErrorRetry"]> = (error, _key, _config, revalidate, { retryCount }) => {
  const { status, retry_after: wait } = problemOf(error);
  if ((status === 503 || status === 429) && retryCount < 8) setTimeout(() => revalidate({ retryCount }), 1000 * (wait ?? 1));
};

export type { Problem };

/** What an answer that failed says, in one sentence. */
export function said(error: unknown): string {
  if (error && typeof error === "object" && "detail" in error) return String(error.detail);
  if (error instanceof TypeError) return "The server cannot be reached. Is `beforehand serve` running?";
  return error instanceof Error ? error.message : String(error);
}

export function problemOf(error: unknown): Partial<Problem> {
  return error && typeof error === "object" && "detail" in error ? (error as Problem) : {};
}

/** Fetch a path of the API that is no JSON (a file, a CSV). */
export async function fetchText(path: string, signal?: AbortSignal): Promise<string> {
  const token = heldToken();
  const answer = await fetch(path, { signal, headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (!answer.ok) throw await answer.json().catch(() => new Error(`the server answered ${answer.status}`));
  return answer.text();
}

/** Save an answer of the API as a file, also where a token is needed. */
export async function save(path: string, name: string): Promise<void> {
  const url = URL.createObjectURL(new Blob([await fetchText(path)]));
  const link = Object.assign(document.createElement("a"), { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
