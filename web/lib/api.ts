"use client";
/** The API, typed from its OpenAPI document. A token, where the server needs one, is kept for the
 * browser tab alone. */
import useSWR, { type SWRConfiguration, type SWRResponse } from "swr";
import type { paths, Problem } from "./schema";

const TOKEN = "beforehand-token";

/** The header that carries the token, where one is held. */
export function authorization(): Record<string, string> {
  const token = window.sessionStorage.getItem(TOKEN);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

export function holdToken(token: string): void {
  window.sessionStorage.setItem(TOKEN, token);
}

type Operation<P extends keyof paths, M extends "get" | "post"> = paths[P] extends Record<M, infer O> ? O : never;
type Params<O> = O extends { parameters: infer Q } ? { [K in keyof Q as Q[K] extends undefined ? never : K]: Q[K] } : never;
type BodyOf<O> = O extends { requestBody?: { content: { "application/json": infer B } } } ? B : never;
type Ok<O> = O extends { responses: infer R } ? { [S in keyof R]: S extends 200 | 202 ? (R[S] extends { content: { "application/json": infer D } } ? D : never) : never }[keyof R] : never;

/** The address of an operation: names in braces from `path`, the rest as its query. */
function address(path: string, params: { path?: object; query?: object } = {}): string {
  let found = path;
  for (const [name, value] of Object.entries(params.path ?? {})) found = found.replace(`{${name}}`, encodeURIComponent(String(value)));
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(params.query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) query.append(name, String(one));
  }
  const text = query.toString();
  return text ? `${found}?${text}` : found;
}

/** Ask the server; raises its problem (RFC 9457) where it answers with one. */
async function ask(path: string, init: RequestInit = {}): Promise<unknown> {
  const headers = { ...(init.headers as Record<string, string>), ...authorization() };
  const answer = await fetch(path, { ...init, headers });
  if (!answer.ok) throw await answer.json().catch(() => new Error(`the server answered ${answer.status}`));
  return answer.json();
}

/** POST to an operation. Raises its problem. */
export function post<P extends keyof paths>(
  path: P,
  given: { path?: object; query?: object; key?: string; body?: BodyOf<Operation<P, "post">>; signal?: AbortSignal },
): Promise<Ok<Operation<P, "post">>> {
  const headers: Record<string, string> = { "Content-Type": "application/json" };
  if (given.key) headers["Idempotency-Key"] = given.key;
  const body = given.body === undefined ? undefined : JSON.stringify(given.body);
  return ask(address(path, given), { method: "POST", headers, body, signal: given.signal }) as Promise<Ok<Operation<P, "post">>>;
}

export type GetPath = { [P in keyof paths]: paths[P] extends { get: object } ? P : never }[keyof paths];
export type Answer<P extends GetPath> = paths[P] extends {
  get: { responses: { 200: { content: { "application/json": infer Data } } } };
}
  ? Data
  : never;
export type Row<P extends GetPath> = Answer<P> extends { items: (infer Item)[] } ? Item : never;
export type Init<P extends GetPath> = { params?: Params<Operation<P, "get">> };

export async function get<P extends GetPath>(path: P, init: Init<P>): Promise<Answer<P>> {
  return (await ask(address(path, init.params))) as Answer<P>;
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

/** Only a busy server is asked again by itself; everything else says what is wrong. */
export const retry: NonNullable<SWRConfiguration["onErrorRetry"]> = (error, _key, _config, revalidate, { retryCount }) => {
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
  const answer = await fetch(path, { signal, headers: authorization() });
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
