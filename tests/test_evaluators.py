"""Contract of heads, saved evaluators, baselines, and comparison on honest folds."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_sample import sources
from special_files import make_link, make_pipe

import accord
import accord.learning.answer_models.balanced  # noqa: F401 - an entry point of the installed package
from accord import (
    Conversation,
    Evaluator,
    Label,
    Labels,
    Project,
    Question,
    Rubric,
    Scale,
    Score,
    Target,
    Unscored,
    compare,
    load_evaluator,
)
from accord.edges import BadInput, NotFitted, UnknownName
from accord.evidence import Column, EvidenceTable, SourceContext, Training, make_source, ratings
from accord.learning import (
    Calibration,
    Constant,
    EvaluatorSettings,
    Experiment,
    JudgeExpected,
    RandomDraw,
    heads,
    make_evaluator,
    make_head,
)
from accord.learning.baselines import (
    AnnotatorMean,
    JudgeArgmax,
)
from accord.learning.experiment import Choice
from accord.models import memory_models, run
from accord.project import Config
from accord.project.evaluators.retrain import shares_of
from accord.statistics import grouped_folds
from accord.testing import (
    check_head,
    planted,
)
from accord.testing.synthetic_ratings import Planted
from accord.validation import (
    MetricsTable,
    is_better,
    other_people,
)
from accord.validation.metrics_table import people_alpha
from accord.values import Sample, Signature, score_from

ORDINAL, BINARY = (1, 2, 3, 4), (0, 1)
BINARY_ONLY = {"issue-labels", "balanced"}
"""Heads that learn questions with two options."""


def everything(options: tuple[int, ...]) -> Planted:
    """Planted corpus with evidence of every kind: features, a judge, a likelihood, and issues of turns."""
    corpus = planted(conversations=60, annotators=3)
    question = Question(id="main", text="How good is it?", scale=Scale(options=options))
    labels = corpus.labels
    if options == BINARY:
        labels = Labels(replace(label, value=int(float(label.value) > 2.5)) for label in labels)  # type: ignore[arg-type]
    quality = corpus.evidence.values @ corpus.weights
    mass = np.exp(-((np.array(options) - np.mean(options) - quality[:, None] - 1) ** 2))
    mass /= mass.sum(axis=1, keepdims=True)
    scores = np.clip(3 + quality, 1, 5)
    found = np.clip(-corpus.evidence.values[:, 0], 0, None)
    others = {
        "pmi": quality, "issue:main": found, "issue:main:worst": found / 5, "issues:score": scores,
        "issues:lowest": np.floor(scores),
    }  # fmt: skip
    judge = tuple(Column(f"main={k}", "judge|model:biased", "main", float(k)) for k in options)
    columns = (*judge, *(Column(name, "planted") for name in others), *corpus.evidence.columns)
    values = np.column_stack([mass, *others.values(), corpus.evidence.values])
    evidence = EvidenceTable(corpus.evidence.targets, columns, values, np.ones(values.shape, dtype=bool))
    return replace(corpus, question=question, evidence=evidence, labels=labels)


@pytest.mark.parametrize("options", [BINARY, ORDINAL], ids=str)
@pytest.mark.parametrize("name", heads.names())
def test_every_head_meets_the_contract(name: str, options: tuple[int, ...]) -> None:
    if name in BINARY_ONLY and options == ORDINAL:
        pytest.skip("answers are yes or no")
    check_head(heads.get(name), everything(options))


def predicted(evaluator: Evaluator, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Any]:
    """Scores of an evaluator without other questions and gate."""
    return run(evaluator.scores([], evidence, lambda head: head.predict_each(evidence, annotators)), memory_models())


@pytest.mark.parametrize("name", heads.names())
def test_saved_evaluator_is_unchanged_after_loading(name: str, tmp_path: Path) -> None:
    corpus = everything(BINARY)
    made = Evaluator(corpus.question, (), make_head(name, corpus.question, {}), name="mine", head_name=name)
    if not made.is_fitted:
        with pytest.raises(NotFitted, match="'mine' is not fitted"):
            made.save(tmp_path)
        with pytest.raises(NotFitted):
            predicted(made, corpus.evidence, [None] * len(corpus.evidence))
    fitted = made.fitted_on(corpus.evidence, corpus.labels)
    assert fitted.level == "conversation" and made.level is None, "fit returns another evaluator"
    fitted.save(tmp_path)
    loaded = load_evaluator(tmp_path)
    for annotator in (None, *fitted.annotators):
        who = [annotator] * len(corpus.evidence)
        assert predicted(loaded, corpus.evidence, who) == predicted(fitted, corpus.evidence, who)
    assert loaded.digest() == fitted.digest() and loaded.signature() == fitted.signature()
    assert (loaded.name, loaded.head_name, loaded.level, loaded.annotators) == (
        "mine", name, "conversation", fitted.annotators
    )  # fmt: skip
    assert json.dumps(loaded.describe()) == json.dumps(fitted.describe())
    before, now = (shares_of(each, corpus.evidence) for each in (loaded, fitted))
    assert before == now and all(map(math.isfinite, now.values())), "what a second fit states about the first"


@pytest.mark.parametrize("name", sorted(set(heads.names()) - {"random"}))  # which draws one row after another
def test_score_of_a_row_is_independent_of_other_rows(name: str) -> None:
    corpus = everything(BINARY if name in BINARY_ONLY else tuple(range(1, 11)))
    head = make_head(name, corpus.question, {}).fit(corpus.evidence, corpus.labels)
    for who in {None, *sorted(head.annotators)[:1]}:
        whole = head.predict(corpus.evidence, who)
        for start, end in ((0, 1), (1, 3), (3, 6), (6, 11), (11, 24)):
            some = head.predict(corpus.evidence.take(np.arange(start, end)), who)
            if name == "network":  # its products are BLAS's, which rounds a row by how many there are
                assert [s.value for s in some] == pytest.approx([s.value for s in whole[start:end]], rel=1e-12)
            else:
                assert some == whole[start:end]


@pytest.mark.parametrize("count", [8, 15])
def test_evaluator_of_few_conversations_can_be_loaded(count: int, tmp_path: Path) -> None:
    corpus = everything(BINARY)
    few = list(dict.fromkeys(target.conversation for target in corpus.evidence.targets))[:count]
    made = Evaluator(corpus.question, (), make_head("mixed", corpus.question, {}), name="mine", head_name="mixed")
    fitted = made.fitted_on(corpus.evidence.filter(few), corpus.labels.filter(few))
    fitted.save(tmp_path)
    nobody = [None] * len(corpus.evidence)
    assert predicted(load_evaluator(tmp_path), corpus.evidence, nobody) == predicted(fitted, corpus.evidence, nobody)


def test_digest_changes_with_every_part() -> None:
    corpus = planted(conversations=40)
    context = SourceContext(Rubric(name="r", questions=(corpus.question,), main="main"))

    def digest(labels: Labels = corpus.labels, question: Question = corpus.question, **settings: object) -> str:
        made = Evaluator(question, (), make_head("mixed", question, settings), head_name="mixed")
        return made.fitted_on(corpus.evidence, labels).digest()

    other = Labels([replace(label, value=5 - label.value) for label in corpus.labels])  # type: ignore[operator]
    asked = corpus.question.model_copy(update={"text": "How bad is it?"})
    found = [digest(), digest(labels=other), digest(own_slopes=False), digest(coverage=0.8), digest(question=asked)]
    assert len(set(found)) == len(found) and digest() == found[0]
    plain = Evaluator(corpus.question, (), Constant(corpus.question)).fitted_on(corpus.evidence, corpus.labels)
    measured = [
        replace(plain, sources=(make_source("metrics", {"names": names}, context),))
        for names in (["turns"], ["question-rate"], ["turns", "question-rate"])
    ]
    others = [plain, replace(plain, level="turn"), replace(plain, other_questions=(plain,)), *measured]
    assert len({each.digest() for each in others}) == len(others)


# --- evaluators of a project -----------------------------------------------------------------------------------------


def rated(folder: Path, level: str, **settings: object) -> Project:
    """Project with the sample's conversations; two annotators rate each, or each reply, by its length."""
    question = Question(id="main", text="How good is it?", scale=Scale(options=ORDINAL))
    own = {"evaluators": {"mine": {"head": "mixed"}}, **settings}
    config = Config(store=f"sqlite:///{folder}/accord.db", draws=20, folds=3, **own)
    project = Project(config, Rubric(name="r", questions=(question,), main="main"))
    chats = [record.conversation for record in accord.read(sources()[0])]
    project.store.add_conversations(chats)
    labels = []
    for chat in chats:
        replies = [place for place, turn in enumerate(chat.turns) if turn.role == "assistant"]
        for place in replies if level == "turn" else [None]:
            length = len(chat.turns[replies[0] if place is None else place].content)
            for who, bias in (("ann", 0), ("bo", 1)):
                labels.append(Label(Target(chat.id, place), "main", who, min(4, 1 + bias + length // 120)))
    project.store.add_labels(labels)
    return project


@pytest.mark.parametrize("level", ["turn", "conversation"])
def test_evaluator_scores_the_level_it_learned(level: str, tmp_path: Path) -> None:
    with rated(tmp_path, level, metrics=["bank", "turns"]) as project:
        fitted = project.fit("mine", tmp_path / "e")
        assert fitted.evaluator.level == load_evaluator(tmp_path / "e").level == level
        expected: list[int] = []
        done = project.score(
            sources()[0], tmp_path / "scores.jsonl", tmp_path / "e", on_scored=expected.append, on_total=expected.append
        )
        assert expected[0] == expected[-1] == done.counts.scored
        last = project.score(
            sources()[0], tmp_path / "last.jsonl", tmp_path / "e", options=accord.scoring.ScoreOptions(turns="last")
        )
    chats = {record.conversation.id: record.conversation for record in accord.read(sources()[0])}
    replies = {(c.id, i) for c in chats.values() for i, turn in enumerate(c.turns) if turn.role == "assistant"}
    rows = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    scored = [(row["conversation"], row["turn"]) for row in rows]
    assert done.level == level and len(scored) == len(set(scored)) == done.counts.scored
    assert set(scored) == (replies if level == "turn" else {(name, None) for name in chats})
    if level == "turn":
        ends = {name: max(place for chat, place in replies if chat == name) for name in chats}
        kept = [json.loads(line) for line in (tmp_path / "last.jsonl").read_text(encoding="utf-8").splitlines()]
        assert {row["conversation"]: row["turn"] for row in kept} == ends and last.counts.scored == len(chats)
        assert all(row in rows for row in kept), "the score of a reply does not depend on other replies"


def test_drift_counts_replies_to_the_same_turns_once(tmp_path: Path) -> None:
    words = [f"word{place}" for place in range(15)]
    with rated(tmp_path, "turn", metrics=["bank"]) as project:
        project.fit("mine", tmp_path / "e")
        for contexts, is_compared in ((10, False), (40, True)):
            rows = [
                {"id": f"{place}", "messages": [
                    {"role": "user", "content": " ".join(np.random.default_rng(place % contexts).permutation(words))},
                    {"role": "assistant", "content": f"It was number {place}, I think." * (1 if place else 500)},
                ]}
                for place in range(120)
            ]  # fmt: skip
            new = tmp_path / f"{contexts}.jsonl"
            new.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
            done = project.score(new, tmp_path / "scores.jsonl", tmp_path / "e")
            assert bool(done.drift) == is_compared, "ten contexts are too few for any number of replies"
            scores = [json.loads(line) for line in (tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
            unlike = {row["conversation"] for row in scores if "unlike the training data" in (row["warning"] or "")}
            assert unlike == {"0"} and str(done.drift_said).startswith("1 of 120 conversations is unlike the training")
            assert ("features shifted" in str(done.drift_said)) == is_compared and "do not" not in str(done.drift_said)


def test_turns_and_conversations_are_not_pooled(tmp_path: Path) -> None:
    named = {level: {"head": "mixed", "level": level} for level in ("turn", "conversation")}
    made = {**named, "default": {"head": "mixed"}}
    with rated(tmp_path, "turn", metrics=["bank"], evaluators=made) as project:
        whole = [Label(Target(c.id), "main", "cy", 1 + i % 4) for i, c in enumerate(project.store.conversations())]
        project.store.add_labels(whole)
        with pytest.raises(BadInput, match="level: turn or level: conversation"):
            project.fit("default", tmp_path / "e")
        found = {level: project.fit(level, tmp_path / level).evaluator for level in named}
    assert {level: fitted.level for level, fitted in found.items()} == {level: level for level in named}
    assert found["turn"].annotators == ["ann", "bo"] and found["conversation"].annotators == ["cy"]


FRESH = """
import json, sys
from accord import load_evaluator, read
from accord.models import memory_models, run
from accord.values import Sample

evaluator = load_evaluator(sys.argv[1])
samples = [Sample(record.conversation) for record in read(sys.argv[2])]
every = [run(evaluator.predict(samples, who), memory_models()) for who in (None, *evaluator.annotators)]
print(json.dumps([evaluator.digest(), [score.to_json() for scores in every for score in scores]]))
"""


@pytest.mark.parametrize("name", ["mine", "mixture"])
def test_saved_evaluator_scores_in_a_fresh_process_without_project_or_key(name: str, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "empty").mkdir()
    with rated(tmp_path / "project", "conversation", metrics=["lexical", "bank"]) as project:
        fitted = project.fit(name, tmp_path / "e").evaluator
    shutil.rmtree(tmp_path / "project")
    bare = {key: value for key, value in os.environ.items() if "KEY" not in key and not key.startswith("ACCORD")}
    command = [sys.executable, "-c", FRESH, str(tmp_path / "e"), str(sources()[0])]
    done = subprocess.run(command, cwd=tmp_path / "empty", env=bare, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    samples = [Sample(record.conversation) for record in accord.read(sources()[0])]
    every = [run(fitted.predict(samples, who), memory_models()) for who in (None, *fitted.annotators)]
    scores = [score for scores in every for score in scores]
    assert json.loads(done.stdout) == json.loads(json.dumps([fitted.digest(), [score.to_json() for score in scores]]))
    assert all(isinstance(score, Score) for score in scores) and len(scores) == 40 * (1 + len(fitted.annotators))
    assert not list((tmp_path / "empty").iterdir()), "scoring leaves nothing behind"


def test_unused_sources_are_not_measured(tmp_path: Path) -> None:
    chats = [Conversation(record.conversation.id, record.conversation.turns) for record in accord.read(sources()[0])]
    question = planted(conversations=10).question
    context = SourceContext(Rubric(name="r", questions=(question,), main="main"))
    labels = Labels(Label(Target(chat.id), "main", "ann", 1 + place % 4) for place, chat in enumerate(chats))
    train = Training(tuple(map(Sample, chats)), labels, question)
    settings = {"metrics": {"names": ["overlap-documents", "turns"]}}
    about = EvaluatorSettings(sources=("metrics", "reference"), head="mixed")
    made = make_evaluator("mine", about, question, context, (), settings)
    assert [source.name for source in made.sources] == ["metrics", "reference"]
    fitted = run(made.fit(train), memory_models())
    fitted.save(tmp_path)
    for each in (fitted, load_evaluator(tmp_path)):
        assert [source.name for source in each.sources] == ["metrics"], (
            "the other source has no values without documents"
        )
        table = run(each.evidence(train.samples), memory_models())
        assert [column.name for column in table.columns] == ["turns"]


def judged(corpus: Planted, question: str = "main") -> EvidenceTable:
    """Planted features, and a judge that answers like the main question with a bias of one point."""
    expected = 2.5 + corpus.evidence.values @ corpus.weights
    options = np.arange(1, 5)
    mass = np.exp(-((options - (expected + 1)[:, None]) ** 2))
    mass /= mass.sum(axis=1, keepdims=True)
    columns = tuple(Column(f"{question}={k}", "judge|model:biased", question, float(k)) for k in options)
    answers = EvidenceTable(corpus.evidence.targets, columns, mass, np.ones(mass.shape, dtype=bool))
    return answers.join(corpus.evidence)


def test_baselines_predict_their_definitions() -> None:
    corpus = planted(seed=3)
    evidence = judged(corpus)
    values = np.array([label.value for label in corpus.labels], dtype=float)
    of = {name: [label.value for label in corpus.labels if label.annotator == name] for name in corpus.levels}

    def value(head, annotator=None):  # type: ignore[no-untyped-def]
        return head.fit(evidence, corpus.labels).predict(evidence, annotator)[0].value

    assert value(Constant(corpus.question)) == pytest.approx(values.mean(), abs=0.01)
    assert value(AnnotatorMean(corpus.question), "p0") == pytest.approx(np.mean(of["p0"]), abs=0.05)
    options, shares, _ = evidence.distribution("main")
    assert value(JudgeExpected(corpus.question)) == pytest.approx(float(shares[0] @ options))
    assert value(JudgeArgmax(corpus.question)) == options[shares[0].argmax()]
    draws = [score.value for score in RandomDraw(corpus.question).fit(evidence, corpus.labels).predict(evidence)]  # type: ignore[union-attr]
    assert np.mean(draws) == pytest.approx(values.mean(), abs=0.2) and set(draws) == {1.0, 2.0, 3.0, 4.0}


def test_judge_baselines_need_answers() -> None:
    corpus = planted(conversations=10)
    with pytest.raises(BadInput, match="no judge answered 'main'"):
        JudgeExpected(corpus.question).fit(corpus.evidence, corpus.labels)
    evidence = judged(corpus)
    present = evidence.present.copy()
    present[0, :4] = False
    holes = EvidenceTable(
        evidence.targets, evidence.columns, evidence.values, present, {(Target("c0000"), "main"): "refused"}
    )
    first = JudgeExpected(corpus.question).fit(holes, corpus.labels).predict(holes)[0]
    assert isinstance(first, Unscored) and first.reason == "refused"


def test_compare_ranks_the_better_method_first_with_intervals() -> None:
    corpus = planted(conversations=150)
    found = compare(judged(corpus), corpus.labels, corpus.question, draws=400)
    best = found["default"]
    for line in found.results[1:]:
        assert best.values["rmse"] < line.values["rmse"]  # type: ignore[operator]
    assert best.estimates["rmse"].low < best.values["rmse"] < best.estimates["rmse"].high  # type: ignore[operator]
    assert max(each.value for each in best.smece) < 0.06  # type: ignore[type-var]
    assert len(best.smece) == 4
    assert all(i.low <= i.high < 0.2 for i in best.smece)  # type: ignore[operator]
    ours = {d.against: d for d in found.differences if d.statistic == "rmse"}
    assert all(is_better(d) and d.p_holm < 0.05 for d in ours.values())
    assert {line.evaluator for line in found.results} == {
        "default", "constant", "annotator-mean", "random", "best-column", "judge-argmax", "judge-expected",
    }  # fmt: skip
    assert found.people is not None and found.people.evaluator == "other people"
    rows = found.to_json()["rows"]
    assert {"rmse", "rmse_low", "rmse_high", "pearson", "spearman", "kendall", "log_loss", "smece"} <= rows[0].keys()
    with pytest.raises(UnknownName, match="unknown evaluator"):
        found["defualt"]


def test_compare_never_learns_from_tested_conversations() -> None:
    # One feature names the conversation; an evaluator that had seen it could repeat its label.
    corpus = planted(conversations=60, annotators=2, share=1.0, noise=0.1)
    rng = np.random.default_rng(0)
    labels = Labels(Label(label.target, "main", label.annotator, int(rng.integers(1, 5))) for label in corpus.labels)
    found = compare(corpus.evidence, labels, corpus.question, draws=100)
    assert abs(found["default"].values["pearson"] or 0) < 0.25, "labels without a pattern cannot be predicted"


def test_compare_lists_a_method_that_cannot_learn() -> None:
    corpus = planted(conversations=12, annotators=1, share=1.0)
    few = Labels(list(corpus.labels)[:6])
    found = compare(corpus.evidence, few, corpus.question, folds=3, draws=20)
    assert found["default"].n == 0 and found["default"].unscored == 6
    assert "at least 8 labels are needed" in next(iter(found["default"].reasons))
    assert found["constant"].n == 6


def test_other_people_predict_from_shared_targets() -> None:
    corpus = planted(conversations=100, annotators=3, share=1.0, noise=0.2)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    people = other_people(rated)
    assert people is not None
    line = MetricsTable(rated, folds=1, draws=50).row([people])
    assert line.n == 300 and line.values["pearson"] > 0.6  # type: ignore[operator]
    assert 0.3 < people_alpha(rated) < 1  # type: ignore[operator]
    alone = Labels(label for label in corpus.labels if label.annotator == "p0")
    assert other_people(ratings(corpus.evidence, alone, corpus.question)) is None
    assert people_alpha(ratings(corpus.evidence, alone, corpus.question)) is None


def test_labels_outside_the_scale_are_rejected() -> None:
    corpus = planted(conversations=10)
    wrong = Labels([*corpus.labels, Label(Target("c0000"), "main", "p0", 9)])
    with pytest.raises(BadInput, match="got 9, allowed: 1, 2, 3, 4"):
        compare(corpus.evidence, wrong, corpus.question)
    with pytest.raises(BadInput, match="no label on 'main' has evidence"):
        compare(corpus.evidence, Labels(), corpus.question)


def test_predictions_do_not_depend_on_the_unit_of_the_scale() -> None:
    corpus = planted(conversations=80)
    plain = compare(corpus.evidence, corpus.labels, corpus.question, folds=2, draws=20)["default"].values
    for factor in (0.01, 10, 1000):
        options = tuple(factor * option for option in range(1, 5))
        question = Question(id="main", text="?", scale=Scale(options=options))
        labels = Labels(Label(x.target, "main", x.annotator, factor * x.value) for x in corpus.labels)  # type: ignore[operator]
        scaled = compare(corpus.evidence, labels, question, folds=2, draws=20)["default"].values
        for name, value in plain.items():
            times = factor if name in {"rmse", "rmse_new_annotator", "mae", "width", "width_new_annotator"} else 1
            assert scaled[name] == pytest.approx(value * times, rel=1e-3), (factor, name)  # type: ignore[operator]


def test_choice_uses_the_training_side_only() -> None:
    corpus = planted(conversations=60)
    seen: list[set[str]] = []

    class Watching(Calibration):
        def fit(self, evidence, labels):  # type: ignore[no-untyped-def]
            seen.append({label.target.conversation for label in labels})
            return super().fit(evidence, labels)

    candidates = [partial(Watching, answer_model="mixed", own_slopes=slopes) for slopes in (False, True)]
    make = partial(Choice, candidates=candidates)
    splits = list(grouped_folds([label.target.conversation for label in corpus.labels], 3, seed=0))
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    system = Experiment(corpus.question, corpus.evidence, corpus.labels, rated, splits, 3).run("choice", make)
    assert system.scored.all()
    assert len(seen) == 3 * (2 * 4 + 1)
    for fold, split in enumerate(splits):
        assert all(not names & split.test for names in seen[9 * fold : 9 * fold + 9])
    assert all(len(names) < 60 * 2 / 3 for fold in range(3) for names in seen[9 * fold : 9 * fold + 8])


def test_choice_selects_the_better_candidate() -> None:
    corpus = planted(conversations=60, noise=0.3)
    candidates = [Constant, partial(Calibration, answer_model="mixed")]  # the default head tries the constant itself
    assert isinstance(Choice(corpus.question, candidates).fit(corpus.evidence, corpus.labels), Calibration)
    random = Labels(Label(x.target, "main", x.annotator, 1 + i % 4) for i, x in enumerate(corpus.labels))
    assert isinstance(Choice(corpus.question, candidates).fit(corpus.evidence, random), Constant)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluator in its folder, to be copied and damaged."""
    corpus = planted(conversations=40, annotators=2)
    folder = tmp_path_factory.mktemp("saved") / "mine"
    made = Evaluator(corpus.question, (), make_head("mixed", corpus.question, {}), name="mine", head_name="mixed")
    made.fitted_on(corpus.evidence, corpus.labels).save(folder)
    return folder


def damaged(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "evaluator"))


@pytest.mark.attack
def test_non_finite_scores_are_rejected() -> None:
    made = {"target": Target("a"), "annotator": "b", "signature": Signature("s")}
    for options, probabilities in (((1, 2), (np.nan, 1)), ((1, 2), (np.inf, 0)), ((1, np.nan), (1, 0))):
        with pytest.raises(BadInput, match="gives a no finite score"):
            score_from(options=options, probabilities=probabilities, **made)  # type: ignore[arg-type]
    whole = score_from(options=(1, 2), probabilities=(0.5, 0.5), **made)  # type: ignore[arg-type]
    for part in ({"value": np.nan}, {"band": (0.0, np.inf)}, {"interval": (-np.inf, 1.0)}):
        with pytest.raises(BadInput, match="no finite score"):
            replace(whole, **part)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["evaluator.json", "arrays.safetensors", "rubric.yaml"])
@pytest.mark.attack
def test_pipes_devices_and_links_in_a_folder_are_not_opened(saved: Path, tmp_path: Path, name: str) -> None:
    folder = damaged(saved, tmp_path)
    card = json.loads((folder / "evaluator.json").read_text(encoding="utf-8"))
    if name == "rubric.yaml":  # read for a source alone
        card["sources"] = [{"name": "bank", "settings": {}, "learned": {}}]
        (folder / "evaluator.json").write_text(json.dumps(card), encoding="utf-8")
    (folder / name).unlink(missing_ok=True)
    make_link(folder / name, "/dev/zero")
    with pytest.raises(BadInput, match=f"{name} is a device, not a file"):
        load_evaluator(folder)
    (folder / name).unlink()
    make_pipe(folder / name)
    with pytest.raises(BadInput, match=f"{name} is a named pipe, not a file"):
        load_evaluator(folder)


@pytest.mark.attack
def test_evaluator_inside_itself_is_rejected(saved: Path, tmp_path: Path) -> None:
    folder = damaged(saved, tmp_path)
    card = json.loads((folder / "evaluator.json").read_text(encoding="utf-8"))
    (folder / "evaluator.json").write_text(json.dumps({**card, "other_questions": ["a"]}), encoding="utf-8")
    (folder / "other_questions").mkdir()
    make_link(folder / "other_questions" / "0", folder)
    with pytest.raises(BadInput, match="contains itself"):
        load_evaluator(folder)
