"use client";
/** What stands in a screen's place while there is nothing to show: loading, empty, failed. */
import { problemOf, said } from "@/lib/api";
import { later } from "@/lib/lazy";
import { Command } from "./small";

const Token = later(() => import("./token").then((found) => found.Token), 220);

export function Loading({ heights, label = "Loading" }: { heights: number[]; label?: string }) {
  return (
    <div role="status" aria-label={label} className="grid gap-6">
      {heights.map((height, i) => (
        <span key={i} className="skeleton" style={{ height }} />
      ))}
    </div>
  );
}

export function Empty({ title, text, command, children }: {
  title: string;
  text?: React.ReactNode;
  command?: string;
  children?: React.ReactNode;
}) {
  return (
    <section className="panel grid justify-items-center gap-3 px-6 py-12 text-center">
      <h1 className="!text-20" data-ready="true">{title}</h1>
      {text && <p className="max-w-[56ch] text-ink-2">{text}</p>}
      {command && <Command text={command} />}
      {children}
    </section>
  );
}

/** What failed, what is still right, and how to try again. A server that wants a token gets one. */
export function Failed({ error, retry, what = "This page" }: { error: unknown; retry: () => void; what?: string }) {
  const problem = problemOf(error);
  if (problem.status === 401) return <Token />;
  return (
    <section className="panel grid justify-items-center gap-3 px-6 py-12 text-center" role="alert">
      <h1 className="!text-20" data-ready="true">{what} could not be read</h1>
      <p className="max-w-[64ch] text-ink-2">{said(error)}</p>
      <div className="flex gap-2">
        <button type="button" className="btn btn-main" onClick={retry}>Try again</button>
        <button
          type="button"
          className="btn"
          onClick={() => void navigator.clipboard?.writeText(JSON.stringify({ at: window.location.href, said: said(error), ...problem }))}
        >
          Copy details
        </button>
      </div>
    </section>
  );
}
