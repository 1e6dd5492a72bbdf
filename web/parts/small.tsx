"use client";
/** Small parts: verdicts, outcomes, states of runs, badges, commands, links to save. */
import { useState } from "react";
import { save } from "@/lib/api";
import { outcomeWord, type Maybe } from "@/lib/format";
import type { World } from "@/lib/run";
import { VERDICTS } from "@/lib/words";
import { Icon } from "./icons";

export function Verdict({ value }: { value: string }) {
  const glyph = VERDICTS[value as keyof typeof VERDICTS] ?? "";
  return (
    <span className="verdict" data-verdict={value}>
      <span aria-hidden="true" className="w-3 text-center">{glyph}</span>
      {value}
    </span>
  );
}

/** How a market ended; what settled between 0 and 1 shows its value. */
export function Outcome({ value, fallback = "open" }: { value: Maybe<number>; fallback?: string }) {
  if (value === null || value === undefined) return <span className="text-ink-3">{fallback}</span>;
  const word = outcomeWord(value);
  return (
    <span className="outcome" data-outcome={word ?? "part"}>
      <svg width="9" height="9" viewBox="0 0 10 10" aria-hidden="true">
        <circle cx="5" cy="5" r="3.6" fill={word === "YES" ? "currentColor" : "none"} stroke="currentColor" strokeWidth="1.8" />
      </svg>
      {word ?? value}
    </span>
  );
}

const STATES: Record<string, [string, string]> = {
  success: ["✓", "text-beats"],
  done: ["✓", "text-beats"],
  running: ["●", "text-accent"],
  failed: ["✕", "text-worse"],
  damaged: ["✕", "text-worse"],
  stopped: ["■", "text-warn"],
  cancelled: ["■", "text-warn"],
  unfinished: ["…", "text-warn"],
  waiting: ["○", "text-ink-3"],
};

export function RunState({ value }: { value: string }) {
  const [glyph, tone] = STATES[value] ?? ["", "text-ink-2"];
  return (
    <span className={`state ${tone}`}>
      <span aria-hidden="true">{glyph}</span>
      {value}
    </span>
  );
}

const WORLDS: Record<World, [string, "sim" | "rec" | "live"]> = {
  simulated: ["Simulated world", "sim"],
  recorded: ["Recorded archive", "rec"],
  live: ["Live", "live"],
};

export function WorldBadge({ world, short = false }: { world: World | null; short?: boolean }) {
  if (!world) return null;
  const [label, icon] = WORLDS[world];
  return (
    <span className="badge" data-world={world}>
      <Icon name={icon} size={11} />
      {short ? world : label}
    </span>
  );
}

/** A command to copy. */
export function Command({ text }: { text: string }) {
  const [copied, setCopied] = useState(false);
  return (
    <span className="cmd">
      <span className="min-w-0">{text}</span>
      <button
        type="button"
        className="btn btn-bare"
        onClick={() => navigator.clipboard?.writeText(text).then(() => setCopied(true))}
      >
        {copied ? "Copied" : "Copy"}
        <span className="sr"> command</span>
      </button>
    </span>
  );
}

export function CopyLink() {
  const [copied, setCopied] = useState(false);
  return (
    <button
      type="button"
      className="btn btn-bare"
      onClick={() => navigator.clipboard?.writeText(window.location.href).then(() => {
        setCopied(true);
        setTimeout(() => setCopied(false), 2000);
      })}
    >
      <Icon name="link" /> {copied ? "Copied" : "Copy link"}
    </button>
  );
}

/** What a table or a screen shows, as a file: exactly the API's answer. */
export function Exports({ path, name, forms = ["csv", "json"] }: { path: string; name: string; forms?: ("csv" | "json")[] }) {
  const join = path.includes("?") ? "&" : "?";
  return (
    <>
      {forms.map((form) => {
        const address = form === "csv" ? `${path}${join}format=csv` : path;
        return (
          <a
            key={form}
            className="btn btn-bare"
            href={address}
            onClick={(event) => {
              event.preventDefault();
              void save(address, `${name}.${form}`);
            }}
          >
            {form === "csv" && <Icon name="down" />} {form.toUpperCase()}
            <span className="sr"> of {name}</span>
          </a>
        );
      })}
    </>
  );
}

export function Panel({ title, hint, right, children, id, pad = true, className = "" }: {
  title?: React.ReactNode;
  hint?: React.ReactNode;
  right?: React.ReactNode;
  children: React.ReactNode;
  id?: string;
  pad?: boolean;
  className?: string;
}) {
  return (
    <section className={`panel ${className}`} id={id}>
      {title && (
        <header className="panel-head">
          <h2>{title}</h2>
          {hint && <span className="note">{hint}</span>}
          {right && <div className="bar-right">{right}</div>}
        </header>
      )}
      {pad ? <div className="panel-body">{children}</div> : <div className="pt-2">{children}</div>}
    </section>
  );
}

export function Facts({ rows }: { rows: [React.ReactNode, React.ReactNode][] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value], i) => (
        <div key={i} className="contents">
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export function Title({ children, lede, crumb }: { children: React.ReactNode; lede?: React.ReactNode; crumb?: React.ReactNode }) {
  return (
    <div>
      {crumb && <p className="note mb-1">{crumb}</p>}
      <h1 data-ready="true">{children}</h1>
      {lede && <p className="lede">{lede}</p>}
    </div>
  );
}
