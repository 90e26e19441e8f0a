"""Group shifts: unbiased mean scores of systems and other groups."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accord import Conversation, Evaluator, Label, Labels, LiveScorer, Score, Target, Turn, load_evaluator
from accord.edges import BadInput
from accord.evidence import SourceContext, Training, make_source, ratings
from accord.learning import Calibration
from accord.live.messages import Message
from accord.models import memory_models, run
from accord.testing import planted
from accord.testing.synthetic_ratings import Planted
from accord.values import Rubric, Sample

OTHERS = {"small": 0.7, "even": 0.0, "large": -0.7}


def spoken(effects: dict[str, float], seed: int = 0, conversations: int = 240, entry: str = "system") -> Planted:
    """Ratings with an effect of the system that the evidence does not contain."""
    corpus = planted(conversations=conversations, options=7, noise=0.8, seed=seed)
    rng = np.random.default_rng(seed)
    named = {target: str(rng.choice(list(effects))) for target in corpus.evidence.targets}
    moved = [
        replace(label, value=int(np.clip(round(label.value + effects[named[label.target]] + rng.normal(0, 0.1)), 1, 7)))
        for label in corpus.labels
        if isinstance(label.value, int)
    ]
    metadata = {target: {entry: name} for target, name in named.items()}
    return replace(corpus, evidence=replace(corpus.evidence, metadata=metadata), labels=Labels(moved))


def biases(head: Calibration, corpus: Planted, entry: str = "system") -> dict[str, float]:
    """Mean error of each system on ratings of new conversations."""
    new = {f"c{place:04d}" for place in range(len(corpus.evidence) // 2, len(corpus.evidence))}
    head.fit(corpus.evidence.filter(set(each.conversation for each in corpus.evidence.targets) - new),
             corpus.labels.filter({each.conversation for each in corpus.evidence.targets} - new))  # fmt: skip
    rated = ratings(corpus.evidence, corpus.labels.filter(new), corpus.question)
    scores = head.predict_each(corpus.evidence.take(rated.row), list(rated.annotator))
    error = np.array([score.value for score in scores if isinstance(score, Score)]) - rated.value
    of = np.array([corpus.evidence.metadata[target][entry] for target in rated.target])
    return {name: float(error[of == name].mean()) for name in sorted(set(of))}


def worst(found: dict[str, float]) -> float:
    return max(map(abs, found.values()))


def test_shifts_remove_bias_of_systems_that_evidence_does_not_explain() -> None:
    corpus = spoken(OTHERS)
    off, even = (Calibration(corpus.question, answer_model="mixed", shift_groups=by) for by in ([], ["system"]))
    before, after = biases(off, corpus), biases(even, corpus)
    assert worst(before) > 0.4 and worst(after) < 0.2
    [(first, second)] = even.describe()["group_shifts"]["worst"].values()
    assert abs(first - worst(before)) < 0.2 and abs(second - worst(after)) < 0.2, (
        "the audit predicts the error on new ratings"
    )
    assert "shifted by system" in even.remarks()[0] and not off.remarks()
    assert "shift_groups:system" in str(even.signature()) and "shift_groups" not in str(off.signature())


def test_equal_groups_are_not_shifted() -> None:
    moved = []
    for seed in range(8):
        corpus = spoken(dict.fromkeys(OTHERS, 0.0), seed)
        head = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
        plain = Calibration(corpus.question, answer_model="mixed", shift_groups=[]).fit(corpus.evidence, corpus.labels)
        pairs = zip(head.predict(corpus.evidence), plain.predict(corpus.evidence), strict=True)
        moved.append(max(abs(a.value - b.value) for a, b in pairs if isinstance(a, Score) and isinstance(b, Score)))
    assert np.mean(moved) < 0.06 and np.median(moved) < 0.03, "of six steps"


def test_only_conversations_that_name_a_known_system_are_shifted(tmp_path: Path) -> None:
    corpus = spoken(OTHERS)
    head = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    Evaluator(corpus.question, (), head, head_name="mixed").save(tmp_path)
    kept = load_evaluator(tmp_path).head
    first = corpus.evidence.take([0] * 3)
    names = tuple(Target(f"new {place}") for place in range(3))
    new = replace(first, targets=names, metadata={names[0]: {"system": "small"}, names[1]: {"system": "unheard of"}})
    for each in (head, kept):
        small, unheard, unnamed = (score.value for score in each.predict(new) if isinstance(score, Score))
        assert unheard == unnamed, "an unknown system is not shifted"
        assert small > unnamed + 0.3
        away = [score.value for score in each.in_new_domain().predict(new) if isinstance(score, Score)]
        assert 0.2 * (small - unnamed) < away[0] - away[2] < 0.8 * (small - unnamed), (
            "half of the shift applies in a new domain"
        )
    there = head.adapt(replace(new, targets=names), Labels([Label(names[0], "main", "p1", 4)]))
    shown = [score.value for score in there.predict(new) if isinstance(score, Score)]
    assert shown[0] == shown[1] == shown[2], "labels of the new domain replace the shift"


def test_metadata_entries_define_groups_with_enough_texts() -> None:
    corpus = spoken(OTHERS, entry="topic")
    by_topic = Calibration(corpus.question, answer_model="mixed", shift_groups=["system", "topic"])
    assert worst(biases(by_topic, corpus, "topic")) < 0.2
    assert list(by_topic.shifts_.tilts) == ["topic"]
    few = {t: {"system": "rare" if place < 9 else "usual"} for place, t in enumerate(corpus.evidence.targets)}
    rare = Calibration(corpus.question, answer_model="mixed").fit(replace(corpus.evidence, metadata=few), corpus.labels)
    assert not rare.shifts_.tilts, "nine texts are too few, and one group needs another"


def test_shifted_scores_stay_on_the_scale_and_bands_hold() -> None:
    corpus = spoken({"worst": -6.0, "best": 6.0}, conversations=400)
    old, new = ({f"c{place:04d}" for place in range(*ends)} for ends in ((0, 200), (200, 400)))
    head = Calibration(corpus.question, answer_model="mixed").fit(
        corpus.evidence.filter(old), corpus.labels.filter(old)
    )
    rated = ratings(corpus.evidence, corpus.labels.filter(new), corpus.question)
    scores = [s for s in head.predict_each(corpus.evidence.take(rated.row), list(rated.annotator))]
    held = []
    for score, value in zip(scores, rated.value, strict=True):
        assert isinstance(score, Score) and score.band is not None
        assert 1 <= score.value <= 7 and abs(sum(score.probabilities) - 1) < 1e-9
        held.append(score.band[0] <= value <= score.band[1])
    assert 0.85 < np.mean(held) <= 1


@pytest.mark.parametrize(
    ("given", "said"), [("system", "list of names"), ([3], "list of names"), (None, "list of names")]
)
def test_shift_groups_must_be_a_list_of_names(given: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        Calibration(planted().question, shift_groups=given)


def test_live_and_batch_scores_use_the_same_shift() -> None:
    rng = np.random.default_rng(0)
    question, samples, labels = planted(options=7).question, [], []
    for place in range(60):
        system = ("plain", "good")[place % 2]
        turns = (Turn("user", "Tell me."), Turn("assistant", "word " * int(rng.integers(1, 12))))
        samples.append(Sample(Conversation(f"c{place}", turns, (), {"system": system}), 1))
        value = 3 + 2 * (system == "good") + int(rng.integers(0, 2))
        labels += [Label(samples[-1].target, "main", name, value) for name in ("p", "q")]
    rubric = Rubric(name="r", questions=(question,), main=question.id)
    words = make_source("metrics", {"names": ["words"]}, SourceContext(rubric))
    evaluator = Evaluator(question, (words,), Calibration(question, answer_model="mixed"), head_name="mixed")
    learned = run(evaluator.fit(Training(tuple(samples), Labels(labels), question)), memory_models())
    live = LiveScorer(learned)
    for name, system in (("a", "plain"), ("b", "good"), ("c", None)):
        live.take([Message(name, "user", "Tell me.")])
        [result] = live.take([Message(name, "assistant", "word word word", system=system)])
        about = {} if system is None else {"system": system}
        turns = (Turn("user", "Tell me."), Turn("assistant", "word word word"))
        [score] = run(learned.predict([Sample(Conversation(name, turns, (), about), 1)]), memory_models())
        assert isinstance(score, Score) and isinstance(result.score, Score)
        assert result.score.value == score.value
        assert abs(score.value - {"plain": 3.5, "good": 5.5, None: 4.5}[system]) < 0.4
