"""Task-level consistency: closed-form values, denominators, nulls with reasons, properties."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wmlab.domains.base import Task
from wmlab.errors import IncompletePanelError, InputError
from wmlab.io import schemas
from wmlab.metrics import consistency as con
from wmlab.metrics.episodes import Episode


def run(item: str, success: bool, mode: str = "real", **changes: Any) -> Episode:
    actions = changes.pop("actions", ("a", "b"))
    fields: dict[str, Any] = {
        "item_id": item,
        "mode": mode,
        "agent_id": "x",
        "model_id": None,
        "messages": (),
        "actions": tuple(actions),
        "reward": float(success),
        "score": None,
        "success": success,
        "status": "finished",
        "n_steps": len(actions),
        "error": None,
    }
    return Episode(**(fields | changes))


def runs(outcomes: str, mode: str = "real", **changes: Any) -> con.Runs:
    """One task a letter: 1 success, 0 failure, t timeout, e error, . missing."""
    found = {}
    for place, letter in enumerate(outcomes):
        if letter != ".":
            status = {"t": "step_cap", "e": "error"}.get(letter, "finished")
            error = "boom" if letter == "e" else None
            found[f"t{place}"] = run(f"t{place}", letter == "1", mode, status=status, error=error, **changes)
    return found


def ids(n: int) -> list[str]:
    return [f"t{place}" for place in range(n)]


def test_closed_form_of_a_small_panel() -> None:
    # a=3 b=2 c=1 d=4; WM: solves 0, 2 and 9, times out on 1, 3 and 5.
    cell = con.compute_cell(
        ids(10), runs("1111100000"), runs("1110010000", "w2r"), runs("1t1t0t0001", "wm"), runs("1111000000")
    )
    assert [cell[k] for k in ("n", "both", "real_only", "w2r_only", "neither")] == [10, 3, 2, 1, 4]
    assert (cell["SR_Real"], cell["SR_W2R"], cell["SR_WM"]) == (0.5, 0.4, 0.3)
    assert cell["CR"] == pytest.approx(0.8) and cell["CR_pw"] == pytest.approx(0.6)
    assert cell["dice"] == pytest.approx(6 / 9) and cell["agreement"] == pytest.approx(0.7)
    assert cell["kappa"] == pytest.approx((0.7 - 0.5) / 0.5)
    # Of the five Real successes, tasks 1 and 3 timed out in the WM: 0, 2, 4 are left, 0 and 2 replay.
    assert cell["CR_pw_T"] == pytest.approx(2 / 3) and cell["n_CR_pw_T"] == 3
    assert cell["timeout_WM"] == pytest.approx(0.3)
    assert (cell["fp"], cell["fn"], cell["calibration_agreement"]) == (1, 3, pytest.approx(0.6))
    assert cell["calibration_w2r"] == {"tp": 2, "fn": 2, "fp": 1, "tn": 5, "agreement": pytest.approx(0.7)}
    assert cell["real_floor"] == pytest.approx(0.8) and cell["floor"]["agreement"] == pytest.approx(0.9)
    assert cell["reasons"] == {}
    assert cell["tasks"][1] == {
        "item_id": "t1",
        "real": True,
        "wm": False,
        "w2r": True,
        "t_real": 2,
        "t_wm": 2,
        "t_w2r": 2,
        "timeout": True,
        "divergence": None,
        "failures": {"wm": "timeout"},
    }


def test_the_cell_has_exactly_the_columns_of_the_table_and_is_json() -> None:
    wanted = set(schemas.CELLS.names) - set(con.IDENTITY)
    for wm in (None, runs("11", "wm")):
        cell = con.compute_cell(ids(2), runs("10"), runs("01", "w2r"), wm)
        assert wanted <= set(cell)
        json.dumps(cell, allow_nan=False)
        nulls = {name for name in wanted if cell[name] is None}
        assert nulls == set(cell["reasons"])


def test_a_timed_out_trajectory_can_still_replay_well() -> None:
    cell = con.compute_cell(ids(2), runs("11"), runs("11", "w2r"), runs("tt", "wm"))
    assert cell["CR_pw"] == 1.0 and cell["CR_pw_T"] is None and "CR_pw_T" in cell["reasons"]


def test_no_real_success_is_null_with_a_reason() -> None:
    cell = con.compute_cell(ids(3), runs("000"), runs("100", "w2r"))
    assert cell["CR"] is None and cell["CR_pw"] is None and cell["CR_pw_ci"] is None and cell["CR_ci"] is None
    assert "SR_Real is 0" in cell["reasons"]["CR"]


def test_kappa_and_dice_without_a_denominator() -> None:
    cell = con.compute_cell(ids(2), runs("00"), runs("00", "w2r"))
    assert cell["dice"] is None and cell["kappa"] is None and cell["agreement"] == 1.0
    assert con.compute_cell(ids(2), runs("11"), runs("11", "w2r"))["kappa"] is None


def test_missing_and_errored_episodes_stay_in_the_denominator() -> None:
    cell = con.compute_cell(ids(5), runs("111.e"), runs("1e.11", "w2r"))
    assert (cell["n"], cell["n_missing"], cell["n_error"]) == (5, 2, 2)
    assert cell["SR_Real"] == pytest.approx(0.6) and cell["CR_pw"] == pytest.approx(1 / 3)
    assert cell["conditions"]["W2R"]["failure_modes"] == {
        "finished_without_success": 0,
        "timeout": 0,
        "invalid_loop": 0,
        "error": 1,
        "missing": 1,
    }
    claims = {"t0": run("t0", True, status="error", error="late")}
    assert con.compute_cell(ids(1), claims, runs("1", "w2r"))["SR_Real"] == 0.0


def test_incomplete_panels_are_named() -> None:
    with pytest.raises(IncompletePanelError, match=r"W2R lacks 6 of 7 \(t1, t2, t3, t4, t5, …\)") as caught:
        con.check_complete(ids(7), {"Real": runs("1111111"), "W2R": runs("1......")})
    assert caught.value.exit_code == 4 and "Real lacks" not in str(caught.value)
    con.check_complete(ids(2), {"Real": runs("1e")})


def test_unknown_and_repeated_tasks_are_refused() -> None:
    with pytest.raises(InputError, match=r"1 item ids are not in the panel \(zz\)"):
        con.by_task(ids(1), [run("t0", True), run("zz", True)], "real.jsonl")
    with pytest.raises(InputError, match="there twice"):
        con.by_task(ids(1), [run("t0", True), run("t0", True)], "real.jsonl")
    with pytest.raises(InputError, match="no tasks"):
        con.compute_cell([], {}, {})


def test_content_of_the_panel_is_compared_where_it_was_recorded() -> None:
    task = Task("t0", "textworld", "goal", "-= Room =-\nA box.")
    shown = ({"role": "user", "content": "Prompt.\n-= Room =-  A box.\nAVAILABLE ACTIONS: look"},)
    other = (
        {"role": "user", "content": "Another room."},
        {"role": "assistant", "content": "-= Room =-\nA box."},
    )
    for episode, found in (
        (run("t0", True), []),
        (run("t0", True, messages=shown), []),
        (run("t0", True, messages=other), ["t0"]),
        (run("t0", True, messages=other, task_sha256=task.sha256), []),
        (run("t0", True, task_sha256="00"), ["t0"]),
    ):
        assert con.content_mismatches([task], {"t0": episode}) == found


def test_step_wise_agreement_and_first_divergence() -> None:
    real = {
        "t0": run("t0", True, actions=("Go  East", "take key", "open box")),
        "t1": run("t1", True, actions=("a",)),
    }
    wm = {
        "t0": run("t0", True, actions=(" go east", "drop key", "open box", "x")),
        "t1": run("t1", True, actions=("A",)),
    }
    cell = con.compute_cell(ids(2), real, real, wm)
    assert cell["step_agreement"] == pytest.approx(3 / 4)
    found = cell["step_wise"]
    assert found["agreement_by_task"] == pytest.approx((2 / 3 + 1) / 2)
    assert (found["n_pairs"], found["n_identical"], found["mean_first_divergence"]) == (4, 1, 1.0)
    assert con.first_divergence(("a", "b"), ("a",)) == 1 and con.first_divergence((), ()) is None
    assert (cell["mean_steps_Real"], cell["mean_steps_WM"], cell["step_gap"]) == (2.0, 2.5, 0.5)


@pytest.mark.parametrize(
    ("episode", "mode"),
    [
        (None, "missing"),
        (run("t", True, status="error", error="x"), "error"),
        (run("t", True, actions=("a",) * 9), None),
        (run("t", False, status="step_cap", actions=("z", *["A ", "a"] * 3)), "invalid_loop"),
        (run("t", False, status="step_cap", actions=("a",) * 4), "timeout"),
        (run("t", False, actions=("a",) * 4 + ("b",)), "finished_without_success"),
    ],
)
def test_failure_modes(episode: Episode | None, mode: str | None) -> None:
    assert con.failure_mode(episode) == mode


def test_intervals() -> None:
    low, high = con.wilson(8, 10) or [0, 0]
    assert (low, high) == (
        pytest.approx(0.4901625),
        pytest.approx(0.9433178),
    )  # statsmodels proportion_confint
    assert con.wilson(0, 0) is None and con.wilson(0, 5) == [0.0, pytest.approx(0.4344825)]
    real, w2r = [True] * 5 + [False] * 5, [True] * 4 + [False] * 6
    assert con.ratio_interval(w2r, real, 3) == con.ratio_interval(w2r, real, 3)
    found = con.ratio_interval(w2r, real, 3)
    assert found is not None and found[0] < 0.8 < found[1]


OUTCOMES = st.integers(1, 12).flatmap(lambda n: st.tuples(*[st.text("10te.", min_size=n, max_size=n)] * 3))


@settings(max_examples=60, deadline=None)
@given(OUTCOMES)
def test_invariants_over_random_panels(letters: tuple[str, str, str]) -> None:
    real, w2r, wm = letters
    n = len(real)
    cell = con.compute_cell(ids(n), runs(real), runs(w2r, "w2r"), runs(wm, "wm"))
    assert cell["both"] + cell["real_only"] + cell["w2r_only"] + cell["neither"] == n == cell["n"]
    bounded = ("SR_Real", "SR_W2R", "SR_WM", "CR_pw", "CR_pw_T", "dice", "agreement", "calibration_agreement")
    assert all(cell[name] is None or 0 <= cell[name] <= 1 for name in bounded)
    for found in cell["conditions"].values():
        assert found["n_success"] + sum(found["failure_modes"].values()) == n
    assert cell["n_missing"] == sum("." in task for task in zip(real, w2r, wm, strict=True))
    if cell["CR_pw"] is not None:
        low, high = cell["CR_pw_ci"]
        assert low <= cell["CR_pw"] + 1e-12 and cell["CR_pw"] <= high + 1e-12
    json.dumps(cell, allow_nan=False)
    same = con.compute_cell(ids(n), runs(real), runs(real, "w2r"))
    assert same["CR"] in (None, 1.0) and same["CR_pw"] in (None, 1.0) and same["agreement"] == 1.0
