"""Do 95 % intervals cover the known truth in 94 to 96 % of correlated worlds?

Run: `python bench/coverage.py [worlds]`. The truth is the expected skill under the worlds' own
latent probabilities, over the population of questions (the mean over all worlds drawn).
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from beforehand.score.skill import Options, resamplers, skills
from beforehand.world.simulate import SimConfig
from tables import FORECASTERS, table

DATES = 156


def one(seed: int) -> dict[str, dict[str, object]]:
    """One world: per forecaster the expected skill, the intervals and the estimate."""
    made, expected = table(SimConfig(seed=seed, dates=DATES, events_per_date=1.5, scalar=0.05))
    options = Options(draws=1000, seed=seed)
    out = {}
    for name, skill in skills(made, resamplers(made, options), options).items():
        if name in FORECASTERS:
            out[name] = {
                "expected": expected[name],
                "skill": skill.skill,
                "lead": skill.ci,
                **skill.ci_by,
            }
    return out


def main(worlds: int) -> None:
    """Print the coverage per forecaster and clustering."""
    with ProcessPoolExecutor(2) as pool:
        results = list(pool.map(one, range(10_000, 10_000 + worlds), chunksize=8))
    print(f"{worlds} worlds; share of 95 % intervals that hold the truth")
    for name in FORECASTERS:
        truth = float(np.mean([r[name]["expected"] for r in results]))
        shares = {
            kind: float(np.mean([r[name][kind][0] <= truth <= r[name][kind][1] for r in results]))
            for kind in ("question", "event", "period", "lead")
        }
        text = "  ".join(f"{kind} {share:.3f}" for kind, share in shares.items())
        print(f"{name:10s} truth {truth:+.5f}  {text}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
