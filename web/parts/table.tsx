"use client";
/** One table for all screens: sorted by its heads, moved through by keys, drawn in part when long. */
import { later } from "@/lib/lazy";
import { useEffect, useRef, useState } from "react";

export interface Column<Row> {
  key: string;
  head: React.ReactNode;
  small?: string;
  /** What the column means; shown on its head. */
  about?: string;
  num?: boolean;
  /** The name under which the API (or the screen) sorts by this column. */
  sort?: string;
  cell: (row: Row) => React.ReactNode;
  /** On a phone: its name before the value, across the card, or not at all. */
  label?: string;
  wide?: boolean;
  skip?: boolean;
  width?: string;
}

export interface Sorting {
  by: string;
  down: boolean;
}

interface Props<Row> {
  caption: string;
  columns: Column<Row>[];
  rows: Row[];
  id: (row: Row) => string;
  sorting?: Sorting;
  onSort?: (sorting: Sorting) => void;
  onOpen?: (row: Row) => void;
  /** Marks of a row: data- attributes. */
  marks?: (row: Row) => Record<string, string | boolean | undefined>;
  /** Called when the end comes near, to fetch more rows. */
  onEnd?: () => void;
  /** Keys j, k, Enter and others: one table of a screen takes them. */
  keys?: Record<string, (row: Row) => void> | boolean;
  cards?: boolean;
  rowHeight?: number;
  foot?: React.ReactNode;
}

const LONG = 150;
/** Fetched only where a table is long. */
const LongBody = later(() => import("./long-body").then((found) => found.default));

export function DataTable<Row>(props: Props<Row>) {
  const { caption, columns, rows, id, sorting, onSort, onOpen, marks, onEnd, keys, cards, rowHeight = 41, foot } = props;
  const [here, setHere] = useState(-1);
  const long = rows.length > LONG;
  const [seen, setSeen] = useState(0);
  const last = long ? seen : rows.length - 1;

  useEffect(() => {
    if (onEnd && last >= rows.length - 30) onEnd();
  }, [last, rows.length, onEnd]);

  const state = useRef({ here, rows, keys, onOpen });
  state.current = { here, rows, keys, onOpen };
  useEffect(() => {
    if (!keys) return;
    const onKey = (event: KeyboardEvent) => {
      const { here, rows, keys, onOpen } = state.current;
      const target = event.target as HTMLElement;
      if (/^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName) && (target as HTMLInputElement).type !== "checkbox") return;
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const move = (to: number) => {
        event.preventDefault();
        setHere(to);
        requestAnimationFrame(() => document.querySelector("[data-here=true]")?.scrollIntoView({ block: "nearest" }));
      };
      if (event.key === "j") move(Math.min(here + 1, rows.length - 1));
      else if (event.key === "k") move(Math.max(here - 1, 0));
      else {
        const row = rows[here];
        if (row === undefined) return;
        if (event.key === "Enter" && onOpen && !/^(A|BUTTON|SUMMARY)$/.test(target.tagName)) onOpen(row);
        else if (typeof keys === "object") keys[event.key]?.(row);
      }
    };
    window.addEventListener("keydown", onKey);
    return () => window.removeEventListener("keydown", onKey);
  }, [keys]);

  const draw = (row: Row, i: number) => (
    <tr key={id(row)} aria-rowindex={i + 2} data-id={id(row)} data-here={i === here ? "true" : undefined} {...marks?.(row)}>
      {columns.map((column) => (
        <td
          key={column.key}
          className={column.num ? "num" : undefined}
          data-key={column.key}
          data-label={column.label}
          data-wide={column.wide || undefined}
          data-skip={column.skip || undefined}
        >
          {column.cell(row)}
        </td>
      ))}
    </tr>
  );
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label={caption}>
      <table className={`data ${cards ? "cards" : ""}`} aria-rowcount={rows.length + 1}>
        <caption className="sr">{caption}</caption>
        <thead>
          <tr>
            {columns.map((column) => {
              const sorted = sorting && column.sort === sorting.by;
              const text = (
                <>
                  {column.head}
                  {sorted && <span aria-hidden="true"> {sorting.down ? "↓" : "↑"}</span>}
                  {column.small && <small>{column.small}</small>}
                </>
              );
              return (
                <th
                  key={column.key}
                  scope="col"
                  className={column.num ? "num" : undefined}
                  style={column.width ? { width: column.width } : undefined}
                  title={column.about}
                  aria-sort={sorted ? (sorting.down ? "descending" : "ascending") : undefined}
                >
                  {column.sort && onSort ? (
                    <button type="button" onClick={() => onSort({ by: column.sort!, down: sorted ? !sorting.down : true })}>
                      {text}
                    </button>
                  ) : (
                    text
                  )}
                </th>
              );
            })}
          </tr>
        </thead>
        {long ? (
          <LongBody rows={rows} columns={columns.length} rowHeight={rowHeight} draw={draw as (row: unknown, i: number) => React.ReactNode} onShown={setSeen} />
        ) : (
          <tbody>{rows.map(draw)}</tbody>
        )}
        {foot && <tfoot>{foot}</tfoot>}
      </table>
    </div>
  );
}

/** Rows that are all here, sorted by a column of theirs; those without a value stand last. */
export function sorted<Row>(rows: Row[], value: (row: Row) => number | string | null | undefined, down: boolean): Row[] {
  return [...rows].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * (down ? -1 : 1);
  });
}
