"""The static export itself: small, the same bytes each time, and made of what stands in the lock."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest
from apiserver import Api
from browsing import Screen
from test_screens import SCREENS, market_of

from beforehand.serve.api.pages import BUILT
from proofs import some

WEB = Path(__file__).parents[2] / "web"
PLATFORMS = ("darwin-arm64", "darwin-x64", "linux-arm64-gnu", "linux-x64-gnu", "win32-x64-msvc")


def packed(path: Path) -> int:
    """How many bytes of it are sent."""
    return path.with_name(path.name + ".gz").stat().st_size


@pytest.fixture
def built(chromium: object) -> Path:
    return BUILT


def test_sizes(built: Path) -> None:
    """First-load JS at most 150 KB packed on every page, of which the framework is 130; the export
    at most 3 MB, the charts at most 115 KB."""
    total = sum(path.stat().st_size for path in built.rglob("*") if path.is_file())
    assert total < 3e6, total
    for page in built.rglob("index.html"):
        scripts = set(re.findall(r'src="(/_next/static/[^"]+\.js)"', page.read_text()))
        assert scripts
        polyfills = set(re.findall(r'src="(/_next/static/[^"]+\.js)" noModule', page.read_text()))
        size = sum(packed(built / name.lstrip("/")) for name in scripts - polyfills)
        assert size < 150_000, (page, size)
    charts = [path for path in built.rglob("*.js") if "recharts" in path.read_text(errors="ignore")]
    assert charts
    assert max(packed(path) for path in charts) < 115_000


def test_first_answers_are_small(browse: Callable[..., Screen], serving: Api) -> None:
    """No answer that a screen needs first is over 60 KB on the wire."""
    sizes: dict[str, int] = {}
    for path in some(
        "screens whose first answers are weighed", [*SCREENS.values()][1::4], [*SCREENS.values()]
    ):
        seen = browse("/")
        seen.page.on(
            "response",
            lambda r: (
                sizes.update({r.url: int(r.header_value("content-length") or 0)})
                if "/api/" in r.url
                else None
            ),
        )
        seen.go(path.replace("MARKET", market_of(serving)))
    assert len(sizes) > 5
    assert max(sizes.values()) < 60_000, max(sizes, key=lambda url: sizes[url])


@pytest.mark.chaos
def test_two_builds_are_the_same(chromium: object, tmp_path: Path) -> None:
    before = {p.relative_to(BUILT): p.read_bytes() for p in BUILT.rglob("*") if p.is_file()}
    kept = tmp_path / "kept"
    shutil.copytree(BUILT, kept)
    done = subprocess.run(
        [sys.executable, "web/build.py", "--fresh", "--out", str(tmp_path / "again")],
        cwd=WEB.parent,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    again = tmp_path / "again"
    after = {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}
    assert before.keys() == after.keys()
    assert [str(name) for name in before if before[name] != after[name]] == []


def test_the_lock_has_every_platform() -> None:
    """A version that lacks binaries for some machines would be dropped from the lock in silence."""
    names = json.loads((WEB / "package-lock.json").read_text())["packages"]
    for platform in PLATFORMS:
        assert f"node_modules/@next/swc-{platform}" in names
        assert f"node_modules/@tailwindcss/oxide-{platform}" in names
        assert f"node_modules/lightningcss-{platform}" in names
    assert "omit-lockfile-registry-resolved=true" in (WEB / ".npmrc").read_text()


def test_files_are_served_with_care(chromium: object, serving: Api) -> None:
    page = httpx2.get(serving.url + "/leaderboard/")
    assert page.headers["cache-control"] == "no-cache"
    assert (
        httpx2.get(
            serving.url + "/leaderboard/", headers={"If-None-Match": page.headers["etag"]}
        ).status_code
        == 304
    )
    script = re.search(r'src="(/_next/static/[^"]+\.js)"', page.text)
    assert script
    sent = httpx2.get(serving.url + script[1])
    assert "immutable" in sent.headers["cache-control"]
    assert sent.headers["vary"] == "Accept-Encoding"
    assert sent.headers["content-encoding"] == "gzip"
    assert sent.headers["content-type"].startswith("text/javascript")
    bare = httpx2.get(serving.url + script[1], headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in bare.headers
    assert bare.content == sent.content, "packed or not, it is the same file"
    assert httpx2.head(serving.url + "/").status_code == 200
    for path in ("/nope", "/..%2f..%2fpyproject.toml", "/.built/", "/_next/"):
        assert httpx2.get(serving.url + path).status_code == 404, path
    for path in ("/", "/nope"):
        answer = httpx2.post(serving.url + path)
        assert answer.status_code == 404
        assert answer.headers["content-type"].startswith("application/problem+json")
    assert (
        httpx2.get(serving.url + "/api/nope")
        .headers["content-type"]
        .startswith("application/problem+json")
    )
    assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.chaos
def test_the_wheel_serves_without_node(tmp_path: Path) -> None:
    """pip install of the wheel, the demo, and the page is there."""
    root = WEB.parent
    uv = Path(sys.executable).with_name("uv")
    subprocess.run(
        [uv, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path)], cwd=root, check=True
    )
    wheel = next(tmp_path.glob("*.whl"))
    ran = subprocess.run(
        [uv, "tool", "run", "--quiet", "--from", str(wheel), "beforehand", "--version"],
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "v")], check=True)
    python = tmp_path / "v" / "bin" / "python"
    subprocess.run(
        [uv, "pip", "install", "--quiet", "--python", str(python), str(wheel)], check=True
    )
    environment = {
        "PATH": str(tmp_path / "v" / "bin"),
        "HOME": str(tmp_path),
        "BEFOREHAND_HOME": str(tmp_path / "home"),
    }
    command = str(tmp_path / "v" / "bin" / "beforehand")
    subprocess.run(
        [command, "demo"], env=environment, check=True, capture_output=True, cwd=tmp_path
    )
    served = subprocess.Popen(
        [command, "serve", "--port", "0", "--json"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )
    try:
        assert served.stdout is not None
        url = json.loads(served.stdout.readline())["url"]
        assert "_next/static" in httpx2.get(url + "/", timeout=30).text
        assert httpx2.get(url + "/api/runs", timeout=30).json()["total"] == 1
    finally:
        served.terminate()
        served.communicate(timeout=30)
