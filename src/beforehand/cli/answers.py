"""An answer of `ask`, for people."""

from typing import Any

from beforehand.cli.output import note


def print_answer(found: dict[str, Any]) -> None:
    """The answer, what was not found, what it cites, and what a model said of it."""
    print(found["answer"])
    if found["not_found"]:
        print("\nNot found:")
        for text in found["not_found"]:
            print(f"- {text}")
    if found["citations"]:
        print()
    for one in found["citations"]:
        place = one.get("url") or one["file"]
        where = "" if place == one["id"] else f", {place}"
        print(f"[{one['n']}] {one['kind']} {one['id']}{where}")
    if "review" in found:
        _print_review(found["review"], found["answer"].splitlines()[1:])
    if "note" in found:
        note(found["note"])
    if "note" in found.get("model", {}):
        note(f"{found['model']['id']}: {found['model']['note']}")


def _print_review(said: dict[str, Any], sentences: list[str]) -> None:
    if "error" in said:
        print(f"\nNot checked: {said['model']}: {said['error']}")
        return
    responds = "responds" if said["responds"] else "does not respond"
    print(f"\nChecked by {said['model']}: it {responds} to the question.")
    for number in said["not_borne_out"]:
        print(f"In doubt: {sentences[number - 1].strip()}")
    if remarks := " ".join(said["remarks"].split()):
        print(f"In its own words, which rest on no record: {remarks}")
