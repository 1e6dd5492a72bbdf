"use client";
/** What frames every screen: the bar with its links, search and keys, and the line with the run. */
import Link from "next/link";
import { usePathname, useRouter } from "next/navigation";
import { Suspense, useEffect, useRef, useState } from "react";
import { useGet } from "@/lib/api";
import { day } from "@/lib/format";
import { to, useUrl } from "@/lib/url";
import { Icon, Logo } from "./icons";

const LINKS: [string, string, string[]][] = [
  ["/", "Overview", []],
  ["/leaderboard/", "Leaderboard", []],
  ["/markets/", "Markets", ["/market/"]],
  ["/runs/", "Runs", ["/run/", "/trace/", "/new/"]],
  ["/compare/", "Compare", []],
  ["/calibration/", "Calibration", []],
  ["/ask/", "Ask", []],
  ["/score/", "Score mine", []],
];
/** Screens about one run: the links between them keep it. */
const ABOUT_A_RUN = ["/leaderboard/", "/markets/", "/market/", "/calibration/", "/run/", "/trace/"];

function Links({ className }: { className: string }) {
  const path = usePathname();
  const run = useUrl().get("run");
  return LINKS.map(([href, label, under]) => {
    const keeps = run && ABOUT_A_RUN.includes(href) && ABOUT_A_RUN.includes(path);
    return (
      <Link
        key={href}
        href={keeps ? to(href, { run }) : href}
        prefetch={false}
        className={className}
        aria-current={path === href || under.includes(path) ? "page" : undefined}
      >
        {label}
      </Link>
    );
  });
}

const KEYS: [string, string][] = [
  ["/", "search markets and runs"],
  ["?", "this list"],
  ["j  k", "next and previous row; on a market, next and previous forecast"],
  ["Enter", "open the row"],
  ["x", "select the row (leaderboard)"],
  ["c", "compare the two selected rows"],
  ["[  ]", "older and newer run"],
  ["← →", "move t by an hour; PageUp and PageDown by a day; Home, End"],
  ["Esc", "close"],
];

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

/** A dialog that the browser itself keeps the focus in, and Esc closes. */
export function Dialog({ open, onClose, label, className = "sheet", children }: {
  open: boolean;
  onClose: () => void;
  label: string;
  className?: string;
  children: React.ReactNode;
}) {
  const ref = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open && !ref.current?.open) ref.current?.showModal();
    if (!open && ref.current?.open) ref.current.close();
  }, [open]);
  return (
    <dialog
      ref={ref}
      className={className}
      aria-label={label}
      onClose={onClose}
      onClick={(event) => event.target === ref.current && onClose()}
    >
      {open && children}
    </dialog>
  );
}

function Search({ open, onClose }: { open: boolean; onClose: () => void }) {
  const router = useRouter();
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  useEffect(() => {
    const waiting = setTimeout(() => setAsked(text.trim()), 200);
    return () => clearTimeout(waiting);
  }, [text]);
  const home = useGet("/api/workspace", open ? {} : null);
  const archive = home.data?.default_archive;
  const markets = useGet(
    "/api/archives/{archive}/markets",
    open && asked && archive ? { params: { path: { archive }, query: { q: asked, limit: 8 } } } : null,
    { keepPreviousData: true },
  );
  const runs = useGet("/api/runs", open ? { params: { query: { limit: 100 } } } : null);
  const found = (runs.data?.items ?? []).filter((run) => asked && run.run_id.includes(asked)).slice(0, 5);
  const go = (address: string) => {
    onClose();
    router.push(address);
  };
  const hits = asked ? (markets.data?.items ?? []) : [];
  return (
    <Dialog open={open} onClose={onClose} label="Search">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (hits[0]) go(to("/market/", { id: hits[0].id }));
          else if (found[0]) go(to("/run/", { run: found[0].run_id }));
        }}
      >
        <label className="field">
          Search markets and runs
          <input className="input" autoFocus value={text} onChange={(e) => setText(e.target.value)} placeholder="words of a question, or a run's name" />
        </label>
      </form>
      <ul className="mt-3 grid gap-1" aria-label="Found">
        {found.map((run) => (
          <li key={run.run_id}>
            <button type="button" className="w-full rounded-md px-2 py-1.5 text-left hover:bg-hover" onClick={() => go(to("/run/", { run: run.run_id }))}>
              <span className="note">run </span>
              {run.run_id} <span className="note">{run.kind}</span>
            </button>
          </li>
        ))}
        {hits.map((market) => (
          <li key={market.id}>
            <button type="button" className="w-full rounded-md px-2 py-1.5 text-left hover:bg-hover" onClick={() => go(to("/market/", { id: market.id }))}>
              {market.question ?? market.id} <span className="note">{market.venue}, closes {day(market.scheduled_close)}</span>
            </button>
          </li>
        ))}
      </ul>
      {asked && !markets.isLoading && !hits.length && !found.length && <p className="note mt-2">Nothing of that name in {archive ?? "this home folder"}.</p>}
    </Dialog>
  );
}

function Bar() {
  const path = usePathname();
  const [search, setSearch] = useState(false);
  const [keys, setKeys] = useState(false);
  const [menu, setMenu] = useState(false);
  useEffect(() => setMenu(false), [path]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (typing(event.target) || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      if (event.key === "/") {
        event.preventDefault();
        setSearch(true);
      } else if (event.key === "?") setKeys(true);
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  const link = "nav-link flex items-center rounded-md px-2.5 py-1.5 font-medium text-ink-2 whitespace-nowrap hover:bg-hover hover:no-underline aria-[current]:bg-sunken aria-[current]:text-ink aria-[current]:font-semibold";
  return (
    <header className="no-print sticky top-0 z-20 border-b border-line bg-bg">
      <div className="frame flex h-[52px] items-center gap-4">
        <Link href="/" prefetch={false} className="flex items-center gap-2 text-14 font-semibold text-ink hover:no-underline">
          <Logo /> beforehand
        </Link>
        <nav aria-label="Main" className="hidden gap-0.5 min-[1080px]:flex">
          <Links className={link} />
        </nav>
        <div className="ml-auto flex items-center gap-2">
          <button type="button" className="btn !justify-start text-ink-3 min-[1280px]:min-w-[180px]" onClick={() => setSearch(true)} aria-label="Search markets and runs">
            <Icon name="search" /> <span className="hidden min-[1280px]:inline">Search markets, runs</span>
            <kbd className="ml-auto hidden min-[1280px]:inline">/</kbd>
          </button>
          <button type="button" className="btn btn-bare hidden min-[720px]:inline-flex" aria-label="Keys" onClick={() => setKeys(true)}>
            <kbd>?</kbd>
          </button>
          <Link href="/new/" prefetch={false} className="btn btn-main">
            <Icon name="play" size={10} fill /> New run
          </Link>
          <button type="button" className="btn min-[1080px]:hidden" aria-expanded={menu} aria-controls="menu" onClick={() => setMenu(!menu)}>
            <Icon name="menu" size={14} /> <span className="sr">Menu</span>
          </button>
        </div>
      </div>
      {menu && (
        <nav id="menu" aria-label="Menu" className="frame grid gap-0.5 border-t border-line py-2 min-[1080px]:hidden">
          <Links className={link} />
        </nav>
      )}
      <Search open={search} onClose={() => setSearch(false)} />
      <Dialog open={keys} onClose={() => setKeys(false)} label="Keys">
        <h2 className="mb-3">Keys</h2>
        <dl className="grid grid-cols-[auto_1fr] gap-x-6 gap-y-2">
          {KEYS.map(([key, about]) => (
            <div key={key} className="contents">
              <dt>{key.split(/\s+/).map((one) => <kbd key={one} className="mr-1">{one}</kbd>)}</dt>
              <dd className="text-ink-2">{about}</dd>
            </div>
          ))}
        </dl>
      </Dialog>
    </header>
  );
}

function Foot() {
  const { data } = useGet("/api/health", {});
  return (
    <footer className="frame no-print flex flex-wrap gap-5 border-t border-line pt-4 pb-8 text-12 text-ink-3">
      <span>beforehand {data?.version}</span>
      <span>times in UTC</span>
      <a className="underline" href="/api">API</a>
    </footer>
  );
}

export function Shell({ children }: { children: React.ReactNode }) {
  return (
    <>
      <a href="#main" className="sr focus:!static focus:!h-auto focus:!w-auto focus:!clip-none">Skip to content</a>
      <Suspense>
        <Bar />
      </Suspense>
      <Suspense>{children}</Suspense>
      <Suspense>
        <Foot />
      </Suspense>
    </>
  );
}

export function Main({ children, busy = false }: { children: React.ReactNode; busy?: boolean }) {
  return (
    <main id="main" tabIndex={-1} aria-busy={busy} className="frame grid min-h-[70vh] content-start gap-6 pt-6 pb-16 outline-none min-[720px]:pt-8">
      {children}
    </main>
  );
}
