"""Takes the addresses of sponsors out of a package-lock.json: a lock file names no host.

python tests/servers/clients/lock.py [web/package-lock.json]
"""

import json
import sys
from pathlib import Path

FILE = Path(__file__).with_name("package-lock.json")

if __name__ == "__main__":
    for path in [Path(name) for name in sys.argv[1:]] or [FILE]:
        lock = json.loads(path.read_text())
        for package in lock["packages"].values():
            package.pop("funding", None)
        path.write_text(json.dumps(lock, indent=2) + "\n")
