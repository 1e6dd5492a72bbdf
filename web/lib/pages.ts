"use client";
/** Lists of the API, page by page. */
import useSWRInfinite from "swr/infinite";
import { get, retry, type Answer, type GetPath, type Init, type Row } from "./api";

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
