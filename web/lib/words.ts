/** What each figure means, where it stands. The verdicts are the API's own words. */
export const VERDICTS = {
  "beats the market": "▲",
  "not shown": "○",
  "worse than the market": "▼",
  "is the market": "=",
  "not ranked": "┄",
} as const;

export interface Measure {
  key: string;
  label: string;
  about: string;
}

export const MEASURES: Measure[] = [
  { key: "gain", label: "Gain", about: "Profit of the positions that forecasts take, in Brier score; the verdict rests on it." },
  { key: "skill_vs_market", label: "Skill vs market", about: "The market's Brier score minus the forecaster's, on the same forecasts; each question counts once. Above 0 is better than the market." },
  { key: "brier", label: "Brier", about: "Mean of (p − y)², per question first. 0 is perfect, 0.25 is a coin." },
  { key: "log_loss", label: "Log loss, ELS", about: "−mean ln of the probability given to what happened; the excess log score is the market's minus the forecaster's." },
  { key: "ece", label: "ECE", about: "Expected calibration error over 10 bins: how far what was said lies from what happened." },
  { key: "accuracy", label: "Accuracy", about: "Share of forecasts on the right side of 0.5; 0.5 counts as YES." },
  { key: "kelly", label: "Kelly", about: "What quarter-Kelly bets at the recorded prices, after spread and fees, would have made of 1." },
];

export const KINDS: Record<string, string> = {
  backtest: "backtest",
  benchmark: "benchmark",
  score: "scored file",
  ask: "question",
  scout: "scout",
};

/** Kinds of runs that have a leaderboard. */
export const SCORED = ["backtest", "score", "benchmark"];
