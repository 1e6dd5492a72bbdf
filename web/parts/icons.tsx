/** The few marks of the interface. Each stands beside a word, and says nothing alone. */
const PATHS = {
  check: "M2 6.5 4.8 9.2 10 3.2",
  bang: "M6 1.8v5.4M6 9.6v.6",
  search: "m8 8 3 3M5.2 8.9a3.7 3.7 0 1 0 0-7.4 3.7 3.7 0 0 0 0 7.4Z",
  link: "M5 7a2.4 2.4 0 0 0 3.4 0l1.9-1.9a2.4 2.4 0 0 0-3.4-3.4L6 2.6M7 5a2.4 2.4 0 0 0-3.4 0L1.7 6.9a2.4 2.4 0 0 0 3.4 3.4l.9-.9",
  down: "M6 1v7M3 5.4 6 8.4l3-3M1.5 10.8h9",
  table: "M1 2.5h10v7H1zM1 5.5h10M4.5 2.5v7",
  close: "m2.5 2.5 7 7m0-7-7 7",
  left: "M7.5 2 3.5 6l4 4",
  right: "m4.5 2 4 4-4 4",
  menu: "M1 3h10M1 6h10M1 9h10",
  play: "M3 1.8 10 6l-7 4.2z",
  stop: "M3 3h6v6H3z",
  lock: "M3.5 5.5V4a2.5 2.5 0 0 1 5 0v1.5M2.5 5.5h7v5h-7z",
  sim: "M6 1.5 10.5 6 6 10.5 1.5 6z",
  rec: "M1.5 1.5h9v9h-9zM4.5 4.5h3v3h-3z",
  live: "M6 6h.01M3.2 8.8a4 4 0 0 1 0-5.6M8.8 3.2a4 4 0 0 1 0 5.6",
  again: "M10 6a4 4 0 1 1-1.2-2.8M10 1.5v2.4H7.6",
  file: "M2.5 1h4.8l2.2 2.3V11h-7zM7 1v2.6h2.5",
} as const;

export function Icon({ name, size = 12, fill = false }: { name: keyof typeof PATHS; size?: number; fill?: boolean }) {
  return (
    <svg width={size} height={size} viewBox="0 0 12 12" aria-hidden="true" className="shrink-0">
      <path
        d={PATHS[name]}
        fill={fill ? "currentColor" : "none"}
        stroke="currentColor"
        strokeWidth="1.5"
        strokeLinecap="round"
        strokeLinejoin="round"
      />
    </svg>
  );
}

export function Logo() {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true">
      <path d="M2 15 6 11l3 2.5 3-7" fill="none" stroke="currentColor" strokeWidth="2" strokeLinejoin="round" strokeLinecap="round" />
      <path d="M14 2v16" stroke="var(--c1)" strokeWidth="2" />
      <path d="M17 5.5h1.5M17 9h1.5M17 12.5h1.5" stroke="var(--mute)" strokeWidth="1.6" />
    </svg>
  );
}
