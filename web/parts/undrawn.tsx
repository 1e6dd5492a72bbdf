"use client";
/** What stands in the place of a part that could not be drawn. */
import Link from "./link";

export function Undrawn({ what, error, again, onLeave }: { what: string; error: Error; again: () => void; onLeave?: () => void }) {
  const leave = () => {
    onLeave?.();
    again();
  };
  return (
    <section className="panel frame my-6 grid justify-items-center gap-3 px-6 py-12 text-center" role="alert" data-failed={what}>
      <h1 className="!text-20" data-ready="true">{what} could not be drawn</h1>
      <p className="max-w-[64ch] text-ink-2">{error.message}</p>
      <div className="flex flex-wrap justify-center gap-2">
        <button type="button" className="btn btn-main" onClick={leave}>{onLeave ? "Close" : "Try again"}</button>
        <Link className="btn" href="/" onClick={onLeave}>Overview</Link>
        <button type="button" className="btn" onClick={() => void navigator.clipboard?.writeText(JSON.stringify({ at: window.location.href, said: error.message, stack: error.stack }))}>Copy details</button>
      </div>
    </section>
  );
}
