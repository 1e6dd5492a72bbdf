/** The leaderboard's rows as a screen shows them. */
import type { BoardRow, RunWhole } from "./schema";

/** The market first, then by skill; rows that are never ranked after the others. */
export function board(run: RunWhole): BoardRow[] {
  const rows = run.scores?.leaderboard ?? [];
  return [...rows].sort((a, b) => rank(b) - rank(a));
}

function rank(row: BoardRow): number {
  if (row.forecaster === "market") return Infinity;
  return row.skill_vs_market ?? -1e9;
}

/** The one forecaster that a screen is about, where the address names none: the best tested one. */
export function leader(run: RunWhole): BoardRow | undefined {
  const rows = board(run).filter((row) => row.forecaster !== "market");
  const subjects = run.scores?.subjects;
  return rows.find((row) => row.verdict === "beats the market") ?? rows.find((row) => subjects?.includes(row.forecaster)) ?? rows[0];
}

/** Bounds that each forecaster meets or fails on its own. */
const OWN = ["share_answered", "effective_periods", "share_of_gain_unsettled"];

/** The bounds that the set itself does not meet. */
export const unmetBySet = (run: RunWhole) => (run.card ?? []).filter((row) => row.ok === false && !OWN.includes(row.name));

/** The sentence above a leaderboard, and the one below it. */
export function verdictOf(run: RunWhole): { title: string; best: BoardRow | undefined } {
  const best = leader(run);
  const unmet = unmetBySet(run);
  const refused = unmet.some((row) => row.name === "share_of_rows_scored");
  const title = unmet.length && !refused ? "Too little to tell" : (run.headline ?? "").replace(/ over [\d,]+( to [\d,]+)? questions? \([^)]*\)/, "");
  return { title: title.replace(/\.$/, ""), best };
}
