"""The peer of `kill.py`, inspect-ai: `kill_peer.py LOGS ADDRESS ITEMS CAP`."""

import asyncio
import glob
import json
import os
import sys
import urllib.request
from typing import Any

from inspect_ai import Task, eval, eval_retry, task
from inspect_ai.dataset import Sample
from inspect_ai.solver import solver


@solver
def ask(address: str) -> Any:
    """One paid call a sample."""

    async def solve(state: Any, generate: Any) -> Any:
        def post() -> str:
            request = urllib.request.Request(
                address,
                data=json.dumps({"item": state.sample_id}).encode(),
                headers={"Idempotency-Key": f"peer-{state.sample_id}"},
            )
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.read().decode()

        state.output.completion = await asyncio.to_thread(post)
        return state

    return solve


@task
def paid(address: str, items: int) -> Task:
    """So many samples, each asked for once."""
    samples = [Sample(input=str(i), id=i + 1) for i in range(items)]
    return Task(dataset=samples, solver=ask(address))


if __name__ == "__main__":
    folder, address, items, cap = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    logs = sorted(glob.glob(folder + "/*.eval"), key=os.path.getmtime)
    options: dict[str, Any] = {"log_dir": folder, "max_samples": cap, "display": "none"}
    if logs:
        eval_retry(logs[-1], **options)
    else:
        eval(paid(address, items), model="mockllm/model", **options)
