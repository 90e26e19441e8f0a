"""Certificates of bands in a new domain: bands are certified, rejected or adapted by fresh labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accord import Evaluator, Labels, Project, Score
from accord.decisions import Certificate, certify
from accord.edges import BadInput, GateFailed
from accord.evidence import ratings
from accord.learning import Calibration
from accord.project import config_from
from accord.sample import sources as sample_sources
from accord.scoring import ScoreOptions
from accord.statistics import upper_bound
from accord.testing import planted
from accord.testing.synthetic_ratings import Planted


def learned(coverage: float = 0.9) -> Evaluator:
    home = planted(conversations=150, noise=0.4)
    head = Calibration(home.question, answer_model="mixed", coverage=coverage).fit(home.evidence, home.labels)
    return Evaluator(home.question, (), head).in_new_domain()


def side(place: Planted, start: int, end: int) -> Labels:
    return place.labels.filter({f"c{number:04d}" for number in range(start, end)})


def test_bands_are_certified_or_adapted() -> None:
    near, far = planted(conversations=300, noise=0.1, seed=1), planted(conversations=600, noise=2.0, seed=2)
    sure = certify(learned(0.8), near.evidence, side(near, 0, 100))
    assert sure.holds and sure.at_most <= 0.2 < 0.5 and str(sure).startswith("certified")
    evaluator, few, rest = learned(), side(far, 0, 60), side(far, 60, 600)
    with pytest.raises(GateFailed, match="not certified.*no number of labels will certify them, or add --adapt"):
        certify(evaluator, far.evidence, few)
    anew = certify(evaluator, far.evidence, few, adapt=True)
    assert not anew.holds and anew.width is not None
    rated = ratings(far.evidence, rest, far.question)
    scores = evaluator.head.predict_each(far.evidence.take(rated.row), list(rated.annotator))

    def inside(found: list[Score]) -> float:
        ends = np.array([score.band for score in found], dtype=float)
        return float(((ends[:, 0] <= rated.value) & (rated.value <= ends[:, 1])).mean())

    banded = [anew.banded(score) for score in scores]
    assert inside(scores) < 0.85 and inside(banded) > 0.88  # type: ignore[arg-type]
    assert "band:adapted-on-" in str(banded[0].signature)
    with pytest.raises(BadInput, match="takes labels of 9 conversations, got 8"):
        certify(evaluator, far.evidence, side(far, 0, 8), adapt=True)
    with pytest.raises(BadInput, match="no fresh label"):
        certify(evaluator, far.evidence, Labels([]))


def test_failing_bands_are_rarely_certified() -> None:
    rng = np.random.default_rng(0)
    certified = 0
    for _ in range(400):
        missed = rng.random(120) < 0.1
        certified += Certificate(120, 120, 0.0, upper_bound(missed, np.arange(120)), 0.1).holds
    assert certified <= 0.06 * 400


def test_fresh_labels_certify_a_scoring_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    chats, rated = map(str, sample_sources())
    rows = [json.loads(line) for line in Path(chats).read_text(encoding="utf-8").splitlines()]
    fresh = {row["id"] for row in rows[100:]}
    lines = Path(rated).read_text(encoding="utf-8").splitlines()
    for name, wanted in (("old.csv", False), ("fresh.csv", True)):
        kept = [line for line in lines[1:] if (line.split(",")[0] in fresh) == wanted]
        Path(name).write_text("\n".join([lines[0], *kept]), encoding="utf-8")
    config = config_from({"metrics": ["bank"], "evaluator": "mixed", "evaluators": {"mixed": {"head": "mixed"}}})
    with Project(config) as project:
        project.import_([chats, "old.csv"])
        project.fit()
        there = ScoreOptions(new_domain=True, certify=Path("fresh.csv"), adapt=True)
        done = project.score(chats, "s.jsonl", options=there)
        assert done.certificate is not None and done.certificate["groups"] == len(fresh)
        assert all(
            "|band:" in json.loads(line)["signature"]
            for line in Path("s.jsonl").read_text(encoding="utf-8").splitlines()
        )
        with pytest.raises(BadInput, match="has labels in the store already"):
            project.score(chats, "s.jsonl", options=ScoreOptions(new_domain=True, certify=Path("old.csv")))
        with pytest.raises(BadInput, match="add --new-domain"):
            project.score(chats, "s.jsonl", options=ScoreOptions(certify=Path("fresh.csv")))
