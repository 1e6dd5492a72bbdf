"""Plans and the in-process driver."""

import pytest

from beforehand.engine import driver
from beforehand.engine.plan import Plan, Step
from beforehand.errors import InputError


def test_steps_run_once_after_what_they_depend_on() -> None:
    steps = [
        Step("c", "join", {}, ("a/1", "a/2")),
        Step("a/1", "one", {"x": 1}),
        Step("a/2", "one", {"x": 2}),
    ]
    seen: list[tuple[str, int, int]] = []
    done = driver.run(
        Plan("r", steps),
        {"one": lambda args, _: args["x"] * 10, "join": lambda _, out: sum(out.values())},
        lambda *state: seen.append(state),
    )
    assert done == {"a/1": 10, "a/2": 20, "c": 30}
    assert [s[0] for s in seen] == ["a/1", "a/2", "c", "done"]


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([Step("a", "x", {}, ("b",)), Step("b", "x", {}, ("a",))], "circle"),
        ([Step("a", "x", {}, ("z",))], "not in the plan"),
        ([Step("a", "x"), Step("a", "x")], "share an id"),
        ([Step("a", "unheard-of")], "unknown action"),
    ],
)
def test_bad_plans_are_refused_before_anything_runs(steps: list[Step], reason: str) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("it ran")

    with pytest.raises(InputError, match=reason):
        driver.run(Plan("r", steps), {"x": fail})


def test_a_failing_step_ends_the_run_with_its_own_exception() -> None:
    def fail(*_: object) -> None:
        raise ValueError("its own")

    with pytest.raises(ValueError, match="its own"):
        driver.run(Plan("r", [Step("a", "x")]), {"x": fail})
