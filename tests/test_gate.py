"""The gate on the mean of scores: an interval over conversations, not the point estimate."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord import Project
from accord.edges import BadInput
from accord.project import Config
from accord.verbs.gate import check_gate


def rows(values: dict[str, list[float]]) -> list[dict[str, Any]]:
    return [
        {"conversation": name, "value": value, "in_training": False} for name, all in values.items() for value in all
    ]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(Config(store=f"sqlite:///{tmp_path}/accord.db"))


@pytest.mark.parametrize(
    ("values", "passes"),
    [
        ({str(n): [2.6 + 0.1 * (n % 2)] for n in range(40)}, True),
        ({str(n): [1.0 + 3.2 * (n % 2)] for n in range(8)}, False),
        ({str(n): [1.0 + 3.2 * (n % 2)] * 100 for n in range(8)}, False),
        ({"only": [2.6, 2.7, 2.8, 2.6]}, False),
    ],
    ids=["clear", "few conversations", "many turns of few conversations", "one conversation"],
)
def test_mean_passes_only_if_its_interval_over_conversations_does(
    project: Project, monkeypatch: pytest.MonkeyPatch, values: dict[str, list[float]], passes: bool
) -> None:
    monkeypatch.setattr("accord.verbs.gate.latest_scores", lambda *_: rows(values))
    with project:
        check, _ = check_gate(project, None, 2.5)
    assert check.estimate is not None and check.estimate > 2.5 and check.passed == passes
    assert "lower bound of the 95% interval over" in str(check) and f"{check.estimate:.3f}" in str(check)


def test_lower_bound_is_missed_by_the_truth_as_often_as_stated(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, below = np.random.default_rng(0), []
    with project:
        for _ in range(300):
            values = {
                str(n): (2 + level + rng.normal(0, 0.3, 4)).tolist() for n, level in enumerate(rng.normal(size=20))
            }
            monkeypatch.setattr("accord.verbs.gate.latest_scores", lambda *_, values=values: rows(values))
            check, _ = check_gate(project, None, 2.0)
            below.append(not check.passed)
    assert 0.94 < np.mean(below) < 1


@pytest.mark.attack
def test_a_condition_that_is_no_number_is_an_error(project: Project) -> None:
    with (
        project,
        pytest.raises(BadInput, match=r"min-agreement is a number, got 'scores.parquet'; the gate checks the"),
    ):
        project.gate("scores.parquet")  # type: ignore[arg-type]
