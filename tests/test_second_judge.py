"""Several judges in `compare`: effective votes, what a second judge adds, and repeated runs of one judge."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_several_judges import MODELS, RUBRIC, conversations, read

from accord import Label, Labels, Project, Target
from accord.decisions import second_judge
from accord.edges import BadInput
from accord.evidence import Column, EvidenceTable
from accord.learning import Experiment, judge_panel, make_head
from accord.project import config_from
from accord.statistics import PairedTest
from accord.values import Question, Scale

OPTIONS = (1, 2, 3, 4, 5)
QUESTION = Question(id="main", text="How good is it?", scale=Scale(options=OPTIONS))
Floats = np.ndarray[Any, np.dtype[np.float64]]


def judged(noise: dict[str, Floats], texts: int = 160) -> tuple[EvidenceTable, Labels]:
    """Texts of random quality with the ratings of two people, and judges that see the quality with some noise."""
    rng = np.random.default_rng(5)
    quality = rng.normal(size=texts)
    columns = [Column(f"{name}={option}", "judge", name, float(option)) for name in noise for option in OPTIONS]
    level = {name: np.clip(3 + quality + error, 1, 5) for name, error in noise.items()}
    values = np.column_stack(
        [np.clip(1 - np.abs(level[name] - option), 0, 1) for name in noise for option in OPTIONS]
    )  # of neighbors
    targets = tuple(Target(f"c{place:03d}") for place in range(texts))
    labels = Labels(
        Label(target, "main", name, int(np.clip(np.round(3 + q + rng.normal(scale=0.6)), 1, 5)))
        for target, q in zip(targets, quality, strict=True)
        for name in ("ann", "ben")
    )
    return EvidenceTable(targets, tuple(columns), values, np.ones(values.shape, dtype=bool)), labels


def panel(noise: dict[str, Floats]) -> second_judge.JudgePanel | None:
    evidence, labels = judged(noise)
    experiment = Experiment.of(evidence, labels, QUESTION, 5, 0)
    systems = {
        name: [experiment.run(name, lambda asked, head=name: make_head(head, asked, {}))] for name in judge_panel.PANEL
    }
    ratings = experiment.ratings
    return second_judge.judge_panel_of(systems, "best-judge", ratings, evidence, QUESTION)


def errors(*scales: float, shared: float = 0.0) -> list[Floats]:
    rng = np.random.default_rng(8)
    common = rng.normal(size=160) * shared
    return [common + rng.normal(size=160) * scale for scale in scales]


@pytest.mark.parametrize(
    ("names", "noise", "votes", "adds"),
    [
        (("main", "main (judge-b)"), errors(0.6, 0.6), (1.5, 2.0), True),
        (("main", "main (judge-b)"), errors(0.1, 0.1, shared=0.6), (1.0, 1.2), False),
        (("main", "main (judge-b)", "main (c)"), errors(0.2, 1.2, 1.2), (1.6, 3.0), False),
        (("main", "bad (judge-b)"), errors(0.6, 0.6), (1.5, 2.0), True),  # another question
    ],
    ids=["independent", "one error", "worse", "other question"],
)
def test_more_judges_help_if_their_errors_differ(
    names: tuple[str, ...], noise: list[Floats], votes: tuple[float, float], adds: bool
) -> None:
    found = panel(dict(zip(names, noise, strict=True)))
    assert found is not None and found.votes is not None and (found.judges, found.columns) == (len(names), len(names))
    assert votes[0] <= found.votes <= votes[1]
    assert (found.adds is not None) == adds
    text = str(found)
    assert ("More judges help" in text) == adds and ("A second judge adds nothing" in text) != adds
    assert f"{len(names)} judges, {len(names)} columns, {found.votes:.1f} votes" in text
    assert f"Cost: {len(names)} answers about each" in text and not found.is_default_worse
    assert found.best in (("judge",) if len(names) > 2 else ("judge", "judge-b"))


def test_weights_ignore_a_judge_without_information() -> None:
    evidence, labels = judged(dict(zip(("main", "main (b)", "main (c)"), errors(0.3, 9.0, 9.0), strict=True)))
    said = np.array([float(each.value or 0) for each in labels]).reshape(-1, 2).mean(axis=1)
    people = dict(zip(evidence.targets, said, strict=True))
    error = {}
    for name in judge_panel.PANEL:
        head = make_head(name, QUESTION, {}).fit(evidence, labels)
        scores = head.predict_each(evidence, [None] * len(evidence))
        error[name] = np.mean([(each.value - people[each.target]) ** 2 for each in scores])  # type: ignore[union-attr]
    assert error["judges-weighted"] < 1.1 * error["best-judge"] < 0.8 * error["judges-mean"]


def test_default_that_is_worse_than_the_best_judge_is_named() -> None:
    worse = PairedTest(0.2, 0.1, 0.3, 0.001)
    found = second_judge.JudgePanel(
        {"judge": 2, "judge-b": 1}, None, "judge", "default", {"best-judge": 0.9, "default": 1.1, "judges-mean": 0.95},
        {"judges-mean": PairedTest(0.05, -0.1, 0.2, 0.4)}, worse,
    )  # fmt: skip
    assert "default has a larger error (1.100) than the best judge alone: use best-judge" in str(found)
    assert "an unknown number of votes" in str(found) and found.to_json()["adds"] is None
    assert str(found).endswith("of the best judge alone 2") and "tokens" not in found.to_json()


@pytest.mark.parametrize(
    ("tokens", "cost"),
    [
        ({"judge": 900.0, "judge-b": 1450.4}, "; 2,350 tokens, of the best judge alone 900"),
        ({"judge": 900.0}, ""),  # the tokens of the second judge are unknown, so a sum would be too small
    ],
)
def test_cost_of_a_second_judge_is_stated_in_tokens_if_all_are_known(tokens: dict[str, float], cost: str) -> None:
    found = second_judge.JudgePanel({"judge": 2, "judge-b": 1}, None, "judge", "default", {"best-judge": 0.9}, {}, None)
    text = str(replace(found, tokens=tokens))
    assert text.endswith(f"Cost: 3 answers about each conversation or turn, of the best judge alone 2{cost}")


@pytest.mark.parametrize("name", judge_panel.PANEL)
def test_panel_without_judges_is_refused(name: str) -> None:
    evidence, labels = judged({"main": errors(0.5)[0]})
    with pytest.raises(BadInput, match="judge's answer varies with the ratings of 'main'"):
        make_head(name, QUESTION, {}).fit(evidence.select([]), labels)


def test_compare_says_what_a_second_judge_adds_and_costs(tmp_path: Path) -> None:
    content = {
        "store": f"sqlite:///{tmp_path}/accord.db", "metrics": [], "models": MODELS, "folds": 3, "draws": 20,
        "evaluators": {"m": {"sources": ["rubric"], "head": "mixed", "settings": {"own_slopes": False}}},
        "evaluator": "m", "repeats": 1,
    }  # fmt: skip
    chats, rng = conversations(), np.random.default_rng(1)
    given = {role: read(place) for place, role in enumerate(MODELS, start=1)}
    with Project(config_from(content), RUBRIC, given=given) as opened:
        opened.store.add_conversations(chats)
        for chat in chats:
            level = sum(map(int, chat.id.split("-")[1:])) / 2
            value = int(np.clip(round(level + rng.normal(scale=0.3)), 1, 4))
            opened.store.add_labels([Label(Target(chat.id), "main", name, value) for name in ("ann", "ben")])
        opened.judge()
        found = opened.compare(["m"]).to_json()
        fitted = opened.fit("best-judge", out=tmp_path / "best").evaluator
    assert (found["judges"]["judges"], found["judges"]["columns"]) == (2, 4) and found["judges"]["votes"] > 1.5
    assert found["judges"]["adds"] in ("judges-mean", "judges-median", "judges-weighted")
    assert found["judges"]["answers"] == {"judge": 2, "judge-law": 2}
    assert len(fitted.roles) == 1, "only the best judge is asked"


def test_runs_of_a_recorded_judge_are_rivals(tmp_path: Path) -> None:
    rng, chats = np.random.default_rng(2), conversations()
    rows = [
        {"item_id": chat.id, "judge_model": "m", "question": "main", "run": run,
         "value": int(np.clip(round(int(chat.id.split("-")[1]) + rng.normal(scale=1.2)), 1, 4))}
        for chat in chats for run in range(4)
    ]  # fmt: skip
    (tmp_path / "judgments.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    content = {
        "store": f"sqlite:///{tmp_path}/accord.db", "metrics": [], "folds": 3, "draws": 20, "repeats": 1,
        "models": {"judge": {"mode": "recorded", "paths": [str(tmp_path / "judgments.jsonl")]}},
    }  # fmt: skip
    with Project(config_from(content), RUBRIC) as opened:
        opened.store.add_conversations(chats)
        opened.store.add_labels(
            Label(Target(chat.id), "main", name, int(chat.id.split("-")[1]))
            for chat in chats
            for name in ("ann", "ben")
        )
        found = opened.compare(["ridge-judge"])
    all_runs, one_run = (found.comparison[name].to_json()["rmse"] for name in ("judge-4-runs", "judge-one-run"))
    assert all_runs < 0.8 * one_run
    assert found.panel is None, "one judge has no panel"
