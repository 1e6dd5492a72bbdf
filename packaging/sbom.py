"""Make packaging/sbom.cdx.json: what a wheel needs at run time, by name, version and digest.

uv writes the CycloneDX document; the addresses of the registry are taken out of it.
"""

import json
import subprocess
from pathlib import Path

from uv import find_uv_bin

TARGET = Path(__file__).parent / "sbom.cdx.json"
EXPORT = ["export", "--quiet", "--format", "cyclonedx1.5", "--preview-features", "sbom-export"]


def main() -> None:
    """Write the file."""
    made = subprocess.run([find_uv_bin(), *EXPORT], capture_output=True, text=True, check=True)
    document = json.loads(made.stdout)
    for component in document["components"]:
        files = component.pop("externalReferences", [])
        digests = {(h["alg"], h["content"]) for file in files for h in file.get("hashes", ())}
        component["hashes"] = [{"alg": alg, "content": text} for alg, text in sorted(digests)]
    TARGET.write_text(json.dumps(document, indent=1) + "\n")
    print(f"{TARGET.name}: {len(document['components'])} components")


if __name__ == "__main__":
    main()
