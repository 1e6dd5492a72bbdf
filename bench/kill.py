"""kill -9 in the middle of paid work: ours beside inspect-ai, the same provider, the same count.

Run: `make bench` (or `python bench/kill.py`). 200 items each, eight at once, killed three
times. A call is finished if its answer had left the provider a quarter of a second before the kill.
"""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests" / "chaos")]

from provider import Provider, serving  # noqa: E402

ITEMS, CAP, KILLS, SETTLED_S = 200, 8, 3, 0.25

OURS = ROOT / "tests" / "chaos" / "small_job.py"
PEER = ROOT / "bench" / "kill_peer.py"


def killed(name: str, paid: int, launch: Callable[[Provider], subprocess.Popen[bytes]]) -> None:
    """Launch, kill, launch again; tells what was paid for more than once."""
    with serving(Provider(latency=0.05)) as provider:
        finished: set[str] = set()
        repeated = in_flight = kills = 0
        points = [paid // 4, paid // 2, 3 * paid // 4]
        while True:
            mark = len(provider.log)
            process = launch(provider)
            limit = points[kills] if kills < KILLS else None
            while process.poll() is None:
                if limit is not None and len(provider.paid()) >= limit:
                    process.send_signal(signal.SIGKILL)
                    kills += 1
                    break
                time.sleep(0.005)
            at = time.time()
            process.communicate()
            again = [asked.key for asked in provider.log[mark:]]
            repeated += sum(key in finished for key in again)
            before = {asked.key for asked in provider.log[:mark]}
            in_flight += sum(key in before and key not in finished for key in again)
            finished |= {
                asked.key for asked in provider.log if asked.at + provider.latency < at - SETTLED_S
            }
            if limit is None or kills > KILLS:
                break
        print(
            f"{name:12s} kills {kills}: {paid} paid calls, asked {len(provider.log)} times; "
            f"finished ones repeated {repeated}, in flight restarted {in_flight}, lost "
            f"{paid - len(provider.paid())}"
        )


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home, peer = Path(folder) / "ours", Path(folder) / "peer"
        home.mkdir()
        peer.mkdir()

        def start(*command: str) -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                [sys.executable, *command],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

        size = (str(ITEMS), str(CAP))
        killed("ours", 2 * ITEMS, lambda p: start(str(OURS), str(home), p.address(), *size))
        killed("inspect-ai", ITEMS, lambda p: start(str(PEER), str(peer), p.address(), *size))


if __name__ == "__main__":
    main()
