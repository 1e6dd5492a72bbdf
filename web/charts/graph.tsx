"use client";
/** A plan as a graph: each step stands right of those that it waits for. */
import { useWidth } from "./scale";

export interface Node {
  id: string;
  title: string;
  deps: string[];
  state?: string;
}

const [WIDE, TALL, GAP_X, GAP_Y] = [176, 46, 48, 14];
const EDGE: Record<string, string> = { success: "var(--beats)", running: "var(--accent)", failed: "var(--worse)" };

export function Graph({ nodes }: { nodes: Node[] }) {
  const [box, width] = useWidth();
  const level = new Map<string, number>();
  const depth = (id: string, seen: Set<string> = new Set()): number => {
    const held = level.get(id);
    if (held !== undefined) return held;
    const node = nodes.find((one) => one.id === id);
    if (!node || seen.has(id)) return -1;
    const found = 1 + Math.max(-1, ...node.deps.map((dep) => depth(dep, new Set([...seen, id]))));
    level.set(id, found);
    return found;
  };
  for (const node of nodes) depth(node.id);
  const columns: Node[][] = [];
  for (const node of nodes) (columns[level.get(node.id) ?? 0] ??= []).push(node);
  const narrow = width > 0 && width < columns.length * (WIDE + GAP_X);
  if (narrow) {
    return (
      <div ref={box}>
        <ol className="grid gap-1.5">
          {columns.flat().map((node) => (
            <li key={node.id} className="rounded-md border border-line-2 px-3 py-1.5" style={{ borderColor: EDGE[node.state ?? ""], marginLeft: 14 * (level.get(node.id) ?? 0) }}>
              <b className="font-medium">{node.title}</b> <span className="note">{node.state === "success" ? "done" : node.state}</span>
            </li>
          ))}
        </ol>
      </div>
    );
  }
  const most = Math.max(1, ...columns.map((column) => column?.length ?? 0));
  const height = most * (TALL + GAP_Y);
  const place = new Map<string, [number, number]>();
  columns.forEach((column, i) =>
    column?.forEach((node, j) => place.set(node.id, [i * (WIDE + GAP_X), (height - column.length * (TALL + GAP_Y)) / 2 + j * (TALL + GAP_Y) + GAP_Y / 2])),
  );
  return (
    <div ref={box} className="chart" style={{ height }}>
      <svg width="100%" height={height} role="img" aria-label={`Plan: ${nodes.map((node) => node.title + (node.deps.length ? ` after ${node.deps.join(", ")}` : "")).join("; ")}`}>
        {nodes.flatMap((node) =>
          node.deps.map((dep) => {
            const [from, until] = [place.get(dep), place.get(node.id)];
            if (!from || !until) return null;
            const [x1, y1, x2, y2] = [from[0] + WIDE, from[1] + TALL / 2, until[0], until[1] + TALL / 2];
            return <path key={`${dep} ${node.id}`} d={`M${x1} ${y1}C${x1 + GAP_X / 2} ${y1} ${x2 - GAP_X / 2} ${y2} ${x2} ${y2}`} fill="none" stroke="var(--line-2)" strokeWidth="1.5" />;
          }),
        )}
        {nodes.map((node) => {
          const [x, y] = place.get(node.id) ?? [0, 0];
          return (
            <foreignObject key={node.id} x={x} y={y} width={WIDE} height={TALL}>
              <div className="grid h-full content-center rounded-md border-[1.5px] bg-surface px-3" style={{ borderColor: EDGE[node.state ?? ""] ?? "var(--line-2)" }} title={node.id}>
                <b className="truncate text-12 font-semibold text-ink">{node.title}</b>
                <span className="truncate font-mono text-11 text-ink-3">{node.state === "success" ? "done" : (node.state ?? node.id)}</span>
              </div>
            </foreignObject>
          );
        })}
      </svg>
    </div>
  );
}
