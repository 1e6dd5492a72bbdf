"use client";
/** What frames every screen: the bar with its links, search and keys, and the line with the run. */
import Link from "@/parts/link";
import { usePathname } from "next/navigation";
import { later } from "@/lib/lazy";
import { Suspense, useEffect, useState } from "react";
import { useGet } from "@/lib/api";
import { to, useUrl } from "@/lib/url";
import { Boundary } from "./boundary";
import { Icon, Logo } from "./icons";

const Asides = later(() => import("./search").then((found) => found.Asides));

const LINKS: [string, string, string[]?][] = [
  ["/", "Overview"],
  ["/leaderboard/", "Leaderboard"],
  ["/markets/", "Markets", ["/market/"]],
  ["/runs/", "Runs", ["/run/", "/trace/", "/new/"]],
  ["/rounds/", "Rounds"],
  ["/compare/", "Compare"],
  ["/calibration/", "Calibration"],
  ["/ask/", "Ask"],
  ["/score/", "Score mine"],
];
/** Screens about one run: the links between them keep it, and its forecaster. */
const ABOUT_A_RUN = /^\/(leaderboard|markets?|calibration|run|trace)\/$/;

function Links() {
  const path = usePathname();
  const url = useUrl();
  const [run, f] = [url.get("run"), url.get("f")];
  return LINKS.map(([href, label, under]) => {
    const keeps = run && ABOUT_A_RUN.test(href) && ABOUT_A_RUN.test(path);
    return (
      <Link
        key={href}
        href={keeps ? to(href, { run, f }) : href}
        className="nav-link"
        aria-current={path === href || under?.includes(path) ? "page" : undefined}
      >
        {label}
      </Link>
    );
  });
}

function Bar() {
  const path = usePathname();
  const [aside, setAside] = useState<"search" | "keys" | "closed">(); // Fetched when it is first asked for.
  const [menu, setMenu] = useState(false);
  useEffect(() => {
    const idle = setTimeout(() => void import("./search").catch(() => null), 1500); // Ready before the first key.
    return () => clearTimeout(idle);
  }, []);
  useEffect(() => setMenu(false), [path]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || document.querySelector("dialog[open],:is(input,textarea,select):focus")) return;
      if (event.key === "/") {
        event.preventDefault();
        setAside("search");
      } else if (event.key === "?") setAside("keys");
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, []);
  return (
    <header className="no-print sticky top-0 z-20 border-b border-line bg-bg">
      <div className="frame flex h-[52px] items-center gap-2 min-[360px]:gap-4">
        <Link href="/" className="flex items-center gap-2 text-14 font-semibold text-ink hover:no-underline">
          <Logo /> beforehand
        </Link>
        <nav aria-label="Main" className="hidden gap-0.5 min-[1080px]:flex">
          <Links />
        </nav>
        <div className="ml-auto flex items-center gap-2">
          <button type="button" className="btn !justify-start text-ink-3 min-[1280px]:min-w-[180px]" onClick={() => setAside("search")}>
            <Icon name="search" /> <span className="sr-narrow">Search markets, runs</span>
            <kbd className="ml-auto hidden min-[1280px]:inline" aria-hidden="true">/</kbd>
          </button>
          <button type="button" className="btn btn-bare hidden min-[720px]:inline-flex" aria-label="? Keys" onClick={() => setAside("keys")}>
            <kbd>?</kbd>
          </button>
          <Link href="/new/" className="btn btn-main">
            <Icon name="play" size={10} fill /> <span className="max-[359px]:sr-only">New run</span>
          </Link>
          <button type="button" className="btn min-[1080px]:hidden" aria-expanded={menu} aria-controls="menu" onClick={() => setMenu(!menu)}>
            <Icon name="menu" size={14} /> <span className="sr">Menu</span>
          </button>
        </div>
      </div>
      {menu && (
        <nav id="menu" aria-label="Menu" className="frame grid gap-0.5 border-t border-line py-2 min-[1080px]:hidden">
          <Links />
        </nav>
      )}
      {aside && <Asides open={aside} onClose={() => setAside("closed")} />}
    </header>
  );
}

function Foot() {
  const { data } = useGet("/api/health", {});
  return (
    <footer className="frame no-print flex flex-wrap gap-5 border-t border-line pt-4 pb-8 text-12 text-ink-3">
      <span>beforehand {data?.version}</span>
      <span>t: the moment of a forecast; times in UTC</span>
      <a className="underline" href="/api">API</a>
    </footer>
  );
}

export function Shell({ children }: { children: React.ReactNode }) {
  const path = usePathname();
  return (
    <>
      <a href="#main" className="sr skip">Skip to content</a>
      <Suspense>
        <Bar />
      </Suspense>
      <Boundary key={path} what="This page">
        <Suspense>{children}</Suspense>
      </Boundary>
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
