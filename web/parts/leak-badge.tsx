import type { RunWhole } from "@/lib/schema";
import { Icon } from "./icons";

/** How many records after t a run showed. */
export function LeakBadge({ run, onOpen }: { run: RunWhole | undefined; onOpen: () => void }) {
  const leaks = run?.scores?.leaks;
  if (!leaks || leaks.from_file) return null;
  const clean = leaks.admitted_after_t === 0;
  return (
    <button type="button" className={`state underline decoration-dotted underline-offset-4 ${clean ? "text-beats" : "text-worse"}`} onClick={onOpen}>
      <Icon name={clean ? "check" : "bang"} /> {leaks.admitted_after_t} records from after t shown
    </button>
  );
}
