"use client";
/** What was forecast of a market, and its prices, as tables. */
import { useState } from "react";
import { count, fixed, instant, ms, signed } from "@/lib/format";
import type { EvidenceRow, RunWhole } from "@/lib/schema";
import type { Step } from "@/charts/market-chart";
import { Icon } from "@/parts/icons";
import { Exports, Panel } from "@/parts/small";
import { DataTable, type Column } from "@/parts/table";

export function TableOfPrices({ prices }: { prices: { t: number; p: number }[] }) {
  const [open, setOpen] = useState(false);
  return (
    <details className="mt-3" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="btn btn-bare !inline-flex"><Icon name="table" /> Show as table</summary>
      <div className="mt-2 max-h-64 overflow-auto" tabIndex={0} role="region" aria-label="Prices as a table">
        <table className="data">
          <thead><tr><th scope="col">Known at</th><th scope="col" className="num">Price of YES</th></tr></thead>
          <tbody>
            {open && prices.slice(0, 1500).map((one, i) => <tr key={i}><td>{instant(one.t)}</td><td className="num">{fixed(one.p, 3)}</td></tr>)}
          </tbody>
        </table>
      </div>
    </details>
  );
}

interface ForecastsProps {
  className: string;
  run: RunWhole;
  steps: Step[];
  evidence: EvidenceRow[];
  outcome: number | null;
  name: string;
  t: number;
  id: string;
  onChoose: (t: number) => void;
}

export function Forecasts({ className, run, steps, evidence, outcome, name, t, id, onChoose }: ForecastsProps) {
  const error = (p: number | null) => (p === null || outcome === null ? null : (p - outcome) ** 2);
  const gain = (step: Step) => (step.market === null || outcome === null ? null : error(step.market)! - error(step.p)!);
  const current = steps.filter((step) => step.t <= t).at(-1);
  const columns: Column<Step>[] = [
    { key: "t", head: "Time t", cell: (step) => <button type="button" className="tnum text-left hover:underline" onClick={() => onChoose(step.t)}>{instant(step.t)}</button> },
    { key: "market", head: "Market", num: true, label: "Market", cell: (step) => fixed(step.market, 3) },
    { key: "p", head: "Forecast", num: true, label: "Forecast", cell: (step) => <b className="text-accent">{fixed(step.p, 3)}</b> },
    { key: "difference", head: "Difference", num: true, skip: true, cell: (step) => signed(step.market === null ? null : step.p - step.market, 3) },
    { key: "em", head: "Squared error", small: "market", num: true, skip: true, cell: (step) => fixed(error(step.market)) },
    { key: "ef", head: "Squared error", small: "forecast", num: true, skip: true, cell: (step) => fixed(error(step.p)) },
    {
      key: "gain", head: "Gain", small: "above 0: nearer than the market", num: true, label: "Gain",
      cell: (step) => {
        const value = gain(step);
        if (value === null) return "–";
        const near = Math.abs(value) < 5e-5;
        return <span className={near ? "" : value > 0 ? "text-beats" : "text-worse"}>{near ? "" : value > 0 ? "▲ " : "▼ "}{signed(value)}</span>;
      },
    },
    { key: "n", head: "Documents", small: "shown", num: true, skip: true, cell: (step) => count(evidence.filter((row) => ms(row.time) === step.t).length) },
  ];
  const gains = steps.map(gain).filter((v): v is number => v !== null);
  const mean = (of: (step: Step) => number | null) => {
    const found = steps.map(of).filter((v): v is number => v !== null);
    return found.length ? found.reduce((a, b) => a + b, 0) / found.length : null;
  };
  return (
    <Panel
      className={className}
      title={`Forecasts of ${name}`}
      hint="choose a row to go to that instant; j and k move"
      right={<Exports path={`/api/runs/${run.run_id}/forecasts?market_id=${encodeURIComponent(id)}&forecaster=${encodeURIComponent(name)}`} name={`${id.replace(":", "-")}-forecasts`} />}
      pad={false}
    >
      <DataTable
        caption={`Forecasts of ${name}`}
        columns={columns}
        rows={steps}
        id={(step) => String(step.t)}
        marks={(step) => ({ "data-after": step.t > t ? "true" : undefined, "aria-selected": step === current ? true : undefined })}
        cards
        foot={
          gains.length > 0 && (
            <tr className="max-[720px]:hidden">
              <td className="font-semibold">Mean of {steps.length}</td>
              <td /><td /><td />
              <td className="num">{fixed(mean((s) => error(s.market)))}</td>
              <td className="num">{fixed(mean((s) => error(s.p)))}</td>
              <td className="num font-semibold">{signed(mean(gain))}</td>
              <td />
            </tr>
          )
        }
      />
    </Panel>
  );
}
