"use client";
/** The rows of a long table that are near the window; the rest is empty space of the same height. */
import { useWindowVirtualizer } from "@tanstack/react-virtual";
import { useEffect, useLayoutEffect, useRef, useState } from "react";

export default function LongBody<Row>({ rows, columns, rowHeight, draw, onShown }: {
  rows: Row[];
  columns: number;
  rowHeight: number;
  draw: (row: Row, index: number) => React.ReactNode;
  onShown: (last: number) => void;
}) {
  const body = useRef<HTMLTableSectionElement>(null);
  const [top, setTop] = useState(0);
  useLayoutEffect(() => {
    if (body.current) setTop(body.current.getBoundingClientRect().top + window.scrollY);
  }, []);
  const virtual = useWindowVirtualizer({ count: rows.length, estimateSize: () => rowHeight, overscan: 12, scrollMargin: top });
  const shown = virtual.getVirtualItems();
  const [first, last] = [shown[0]?.index ?? 0, shown.at(-1)?.index ?? 0];
  useEffect(() => onShown(last), [last, onShown]);
  const gap = (height: number) =>
    height > 0 && (
      <tr aria-hidden="true">
        <td colSpan={columns} style={{ height, padding: 0, border: 0 }} />
      </tr>
    );
  return (
    <tbody ref={body}>
      {gap((shown[0]?.start ?? top) - top)}
      {rows.slice(first, last + 1).map((row, i) => draw(row, first + i))}
      {gap(virtual.getTotalSize() - ((shown.at(-1)?.end ?? top) - top))}
    </tbody>
  );
}
