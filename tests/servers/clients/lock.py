"""Takes the addresses of sponsors out of package-lock.json: a lock file names no host.

python tests/servers/clients/lock.py
"""

import json
from pathlib import Path

FILE = Path(__file__).with_name("package-lock.json")

if __name__ == "__main__":
    lock = json.loads(FILE.read_text())
    for package in lock["packages"].values():
        package.pop("funding", None)
    FILE.write_text(json.dumps(lock, indent=2) + "\n")
