"""Sheets without a main rating: users' thumbs on their own question, and partial forms of staff."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from synthetic_corpus import planted_thumbs

from accord import Conversation, Evaluator, Label, Labels, Project, Score, Target, Turn, load_evaluator, read_labels
from accord.evidence import ratings
from accord.learning import (
    Calibration,
    other_sheets,
)
from accord.learning.answer_models.network.answers import (
    PAPER,
    NetworkAnswers,
    NetworkSettings,
    answers_to,
    sheets_beyond,
)
from accord.learning.answer_models.network.formula import (
    blocks,
    chances,
    inputs,
)
from accord.learning.calibration.other_questions import AuxiliaryQuestions
from accord.project import config_from, infer_rubric, survey_files
from accord.statistics import pearson
from accord.testing import planted
from accord.testing.synthetic_ratings import Planted
from accord.values import Question, Rubric, Scale, ScaleKind


def r_of(head: Calibration, corpus: Planted, labels: Labels, tested: Labels) -> float:
    """Correlation on ratings of conversations without labels in training."""
    head.fit(corpus.evidence, labels)
    rated = ratings(corpus.evidence, tested, corpus.question)
    scores = head.predict_each(corpus.evidence.take(rated.row), list(rated.annotator))
    return pearson(rated.value, np.array([score.value for score in scores if isinstance(score, Score)])) or 0.0


@pytest.mark.parametrize("answer_model", ["mixed", "auto"])
def test_user_thumbs_help_with_few_ratings(answer_model: str) -> None:
    gains = []
    for seed in range(3):
        corpus, tested = planted_thumbs(seed=seed)
        alone, with_thumbs = (
            r_of(Calibration(corpus.question, answer_model=answer_model), corpus, labels, tested)
            for labels in (corpus.labels.on("main"), corpus.labels)
        )
        gains.append(with_thumbs - alone)
    assert np.mean(gains) >= 0.03 and min(gains) > -0.02


def test_unrelated_thumbs_do_no_harm() -> None:
    losses = []
    for seed in range(3):
        corpus, tested = planted_thumbs(ratings=100, seed=seed)
        rng = np.random.default_rng(seed)
        noise = Labels(replace(x, value=int(rng.integers(2))) if x.question == "thumb" else x for x in corpus.labels)
        alone, beside = (
            r_of(Calibration(corpus.question, answer_model="mixed"), corpus, labels, tested)
            for labels in (corpus.labels.on("main"), noise)
        )
        losses.append(alone - beside)
    assert np.mean(losses) < 0.02


def test_column_of_a_text_excludes_its_own_answers() -> None:
    corpus, _ = planted_thumbs(users=60, conversations=200)
    one = next(label.target for label in corpus.labels if label.question == "thumb")
    turned = Labels(
        replace(x, value=1 - int(x.value or 0)) if x.question == "thumb" and x.target == one else x
        for x in corpus.labels
    )
    (first, then), (_, now) = (
        AuxiliaryQuestions.learn(corpus.evidence, each, "main") for each in (corpus.labels, turned)
    )
    assert first is not None and list(first.sheets) == ["thumb"] and first.sheets["thumb"] == 300
    [row] = corpus.evidence.rows_of([one])
    moved = np.abs(then.values[:, -1] - now.values[:, -1])
    assert moved[row] < 1e-9 < moved.max(), "other texts learn from it"
    again = first.extend(corpus.evidence)
    assert again.columns == then.columns and pearson(again.values[:, -1], then.values[:, -1]) > 0.9  # type: ignore[operator]


def test_other_questions_are_described_and_saved(tmp_path: Path) -> None:
    corpus, _ = planted_thumbs()
    learned = Calibration(corpus.question, answer_model="mixed").fit(corpus.evidence, corpus.labels)
    assert "Learned from answers to 'thumb' too: 1000 sheets without a main rating" in learned.remarks()
    assert learned.describe()["other_questions"] == {"thumb": 1000} and "other_questions:thumb" in str(
        learned.signature()
    )
    assert learned.annotators == ["p0", "p1", "p2"], "users with thumbs only are no annotators"
    assert learned.columns == corpus.evidence.columns, "no further evidence is needed"
    Evaluator(corpus.question, (), learned, head_name="mixed").save(tmp_path)
    kept = load_evaluator(tmp_path).head
    part = corpus.evidence.take(range(20))
    holes = part.with_only(np.arange(12) % 2 * part.present > 0)
    few = Labels([Label(part.targets[0], "main", "p1", 1)])
    for one, other in ((learned, kept), (learned.adapt(part, few), kept.adapt(part, few))):  # type: ignore[attr-defined]
        for table in (part, holes):
            first, then = (
                [s.value for s in each.predict(table, "p1") if isinstance(s, Score)] for each in (one, other)
            )
            assert len(first) == 20 and first == pytest.approx(then)


def test_few_answers_names_and_comparisons_add_no_column() -> None:
    corpus, _ = planted_thumbs(conversations=200, users=60)
    main, thumbs = corpus.labels.on("main"), corpus.labels.on("thumb")
    strange = [
        thumbs[:19],
        [replace(label, value=("good", "bad")[int(label.value or 0)]) for label in thumbs],
        [replace(label, against=Target("c0001")) for label in thumbs],
        [replace(label, value=1) for label in thumbs],
        [Label(label.target, "other", label.annotator, label.value) for label in main],
    ]
    for case in strange:
        found, table = AuxiliaryQuestions.learn(corpus.evidence, Labels([*main, *case]), "main")
        assert found is None and table is corpus.evidence
    few = [*thumbs[:5], *(Label(label.target, "thumb", label.annotator, place % 2) for place, label in enumerate(main))]
    found, _ = AuxiliaryQuestions.learn(corpus.evidence, Labels([*main, *few]), "main")
    assert found is not None and found.sheets == {"thumb": 5}, "answers beside a main rating count too"


def test_users_who_did_not_click_have_no_answer(tmp_path: Path) -> None:
    file = tmp_path / "thumbs.csv"
    clicks = ["up", "down", "no click", "", "No feedback"]
    rows = [f"c{place},user-{place},thumb,{click}" for place, click in enumerate(clicks)]
    file.write_text("\n".join(["conversation,annotator,question,value", *rows]) + "\n", encoding="utf-8")
    inferred = infer_rubric(survey_files([str(file)]).questions.values(), None).rubric
    assert inferred.main_question.scale.kind is ScaleKind.BINARY
    values = {label.annotator: label.value for label in read_labels(file, inferred)}
    assert values.pop("user-0") == 1 and values.pop("user-1") == 0
    assert set(values.values()) <= {None}, "missing, not negative"
    offered = Scale(kind=ScaleKind.NOMINAL, options=("no click", "down", "up"))
    values = {label.annotator: label.value for label in read_labels(file, Rubric(
        name="clicks", questions=(Question(id="thumb", text="Click?", scale=offered),), main="thumb"))}  # fmt: skip
    assert [values[f"user-{place}"] for place in (0, 1, 2, 4)] == ["up", "down", "no click", "no click"]


def test_every_sheet_is_trained_on_also_a_single_one() -> None:
    corpus, _ = planted_thumbs(conversations=200, users=60)
    main, thumbs = corpus.labels.on("main"), corpus.labels.on("thumb")
    everything = Labels([*main, *thumbs, *(replace(x, question="issue:rude") for x in thumbs)])
    assert set(other_sheets(everything, main)) == {label.target for label in thumbs}
    for one in (thumbs[0], replace(thumbs[0], value="good")):
        assert other_sheets(Labels([*main, one]), main) == [one.target]
    assert not other_sheets(everything, main, {"thumb"})
    assert not other_sheets(Labels([*main, replace(thumbs[0], value=None)]), main), "no click is no answer"
    of_turns = Labels(replace(label, target=Target(label.target.conversation, 1)) for label in thumbs)
    assert not other_sheets(Labels([*main, *of_turns]), main), "turns and conversations are rated separately"


def test_project_learns_from_thumbs_on_unrated_conversations(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    main, thumb = (Question(id=name, text=f"{name}?", scale=Scale(options=tuple(options)))
                   for name, options in (("main", range(1, 6)), ("thumb", range(2))))  # fmt: skip
    chats, labels = [], []
    for place in range(90):
        words = int(rng.integers(1, 40))
        chats.append(Conversation(f"c{place}", (Turn("user", "Tell me."), Turn("assistant", f"{place} " * words))))
        worth = words / 10 + rng.normal()
        if place < 30:
            labels.append(Label(Target(f"c{place}"), "main", f"p{place % 2}", int(np.clip(round(1 + worth), 1, 5))))
        else:
            labels.append(Label(Target(f"c{place}"), "thumb", f"user-{place}", int(worth > 2)))
    config = config_from({
        "store": f"sqlite:///{tmp_path}/accord.db", "metrics": ["words-per-reply"], "folds": 3, "draws": 20,
        "evaluators": {"m": {"sources": ["metrics"], "head": "mixed"}, "c": {"sources": ["metrics"], "head": "constant"}},
        "evaluator": "m",
    })  # fmt: skip
    with Project(config, Rubric(name="r", questions=(main, thumb), main="main")) as project:
        project.store.add_conversations(chats)
        project.store.add_labels(labels)
        evaluator = project.evaluator("m")
        train, _ = project.training(evaluator)
        assert len(train.samples) == 90 and len(train.rated().samples) == 30 == len(train.rated().labels)
        fitted = project.fit(out=tmp_path / "m")
        assert fitted.comparison is not None and fitted.comparison["m"].n == 30
        assert fitted.evaluator.head.describe()["other_questions"] == {"thumb": 60}
        compared = project.compare()
        assert compared.comparison["m"].to_json()["rmse"] == fitted.comparison["m"].to_json()["rmse"]
        assert len(compared.comparison.ratings) == 30 and compared.comparison.to_json()["seen"] == 0
        assert project.insights(fitted).curve[-1].labels == pytest.approx(20)


def test_network_receives_every_answer() -> None:
    corpus = planted(conversations=10, annotators=2, share=1.0)
    rated = ratings(corpus.evidence, corpus.labels, corpus.question)
    first, second = corpus.evidence.targets[:2]
    more = Labels([
        *corpus.labels, Label(first, "thumb", "u", 1), Label(first, "thumb", "p0", 0),
        Label(second, "thumb", "p1", 1), Label(second, "thumb", "p1", 0),
        Label(second, "thumb", "v", None), Label(Target("elsewhere"), "thumb", "w", 1),
    ])  # fmt: skip
    beyond = sheets_beyond(corpus.evidence, rated, more)
    assert beyond == [(first, "u"), (second, "p1")], "the second answer of p1 has no main rating"
    answers, options = answers_to(rated, more, beyond)
    assert answers.shape == (22, 2) and options == (4, 2)
    assert answers[-2:].tolist() == [[-1, 1], [-1, 0]] and (answers[:-2, 0] == rated.answer).all()
    assert answers[:, 1].tolist().count(-1) == 18
    clicks = [Label(target, "click", "u", ("no click", "up", "down")[place % 3])
              for place, target in enumerate(corpus.evidence.targets)]  # fmt: skip
    offered = Labels([*corpus.labels, *clicks])
    answers, options = answers_to(rated, offered, sheets_beyond(corpus.evidence, rated, offered))
    assert options == (4, 3), "no click is an option of its own"
    assert sorted(answers[-10:, 1].tolist()) == [0] * 3 + [1] * 4 + [2] * 3


@pytest.fixture
def without_inner_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network whose sheets are prepared, and not yet learned from."""
    monkeypatch.setattr(NetworkAnswers, "_choose", lambda network, *_: setattr(network, "pooling_", PAPER.pooling))


def test_pretraining_learns_from_every_answer(without_inner_folds: None) -> None:
    training = pytest.importorskip("accord.learning.answer_models.network.training")
    corpus = planted(conversations=12, annotators=2, share=1.0)
    t, main = corpus.evidence.targets, [*corpus.labels]
    # Two annotators answered both questions on two texts; a user answered the other question alone, once.
    beside = [Label(t[0], "thumb", "p0", 0), Label(t[1], "thumb", "p1", 1)]
    alone = Label(t[2], "thumb", "user", 1)
    settings = {**vars(PAPER), "hidden": (4, 3), "rate": 0.01, "pretrain": 3, "finetune": 1}
    seen = []

    def weights(labels: list[Label]) -> np.ndarray:
        model = NetworkAnswers(NetworkSettings.of(settings))
        evidence = model.prepare(corpus.evidence)
        rated = ratings(evidence, Labels(main), corpus.question)
        model.cross_predict(lambda: model, evidence, rated, Labels(labels))
        sheets, shape = model._sheets, model.shape_
        everything = np.ones(len(sheets.annotator), dtype=bool)
        tables, width = training.tables(sheets, shape.widest), sheets.blocks
        rows = blocks(sheets.annotator, width, np.flatnonzero(everything))
        x = inputs(np, *(np.asarray(tables[name])[rows] for name in ("values", "present")), tables["group"])
        compiled = partial(training.jax.jit, static_argnums=0)
        start = compiled(training.initial)(shape, training.jax.random.key(0))
        allowed = np.append(everything, np.zeros(len(tables["answers"]) - len(everything), dtype=bool))
        total, count = compiled(training.total_surprise)(shape, tables, start, x, rows, allowed)
        chance = chances(np, shape, jax_free(start), np.asarray(x))
        answered = np.asarray(tables["answers"])[rows]
        assert float(total) == pytest.approx(-np.log((chance * answered).sum(-1)[answered.sum(-1) > 0]).sum(), rel=1e-4)
        seen.append(int(count))
        model.fit(evidence, rated, Labels(labels))
        return np.asarray(model.members_[0]["W1"]["shared"])

    with_all, with_one, flipped = (
        weights([*main, *beside, *rest]) for rest in ([alone], [], [replace(alone, value=0)])
    )
    assert seen == [24 + 3, 24 + 2, 24 + 3], "eq. 1 sums over every answer"
    assert not np.allclose(with_all, with_one) and not np.allclose(with_all, flipped)


def jax_free(parameters: dict[str, dict[str, object]]) -> dict[str, dict[str, np.ndarray]]:
    return {layer: {part: np.asarray(array) for part, array in parts.items()} for layer, parts in parameters.items()}


def test_users_with_thumbs_alone_have_no_weights_of_their_own(without_inner_folds: None) -> None:
    training = pytest.importorskip("accord.learning.answer_models.network.training")
    corpus, _ = planted_thumbs(users=30, conversations=100)
    settings = {**vars(PAPER), "hidden": (4, 3), "rate": 0.01, "pretrain": 3, "finetune": 1}

    def network(labels: Labels) -> NetworkAnswers:
        model = NetworkAnswers(NetworkSettings.of(settings))
        evidence = model.prepare(corpus.evidence)
        rated = ratings(evidence, labels, corpus.question)
        model.cross_predict(lambda: model, evidence, rated, labels)
        return model

    one = network(corpus.labels)
    same = network(Labels(replace(x, annotator="one user") if x.question == "thumb" else x for x in corpus.labels))
    assert one.shape_.annotators == 3 and one.annotators == ["p0", "p1", "p2"]
    sheets = one._sheets
    counts = np.bincount(sheets.annotator)
    assert counts.sum() == 50 + 150 and counts[3:].max() == counts[:3].max(), "blocks of equal size"
    terms = training.Schedule(3, 1, None, 0.0, False)
    job = training.TrainingJob(np.ones(200, dtype=bool), 0.01, 0.0, 0.0, 0)
    [first], [then] = (training.train(one.shape_, each._sheets, terms, [job]) for each in (one, same))
    assert first["W1"]["own"].shape[0] == 3
    for layer in first:
        assert first[layer]["own"] == pytest.approx(then[layer]["own"], abs=1e-5), "it does not matter which user"


def test_paper_network_pretrains_on_every_sheet(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    settings = {**vars(PAPER), "hidden": (8, 8), "rate": 0.01, "pretrain": 3, "finetune": 20}
    corpus, tested = planted_thumbs()
    heads = [Calibration(corpus.question, answer_model="network", network=settings) for _ in range(2)]
    both = (corpus.labels.on("main"), corpus.labels)
    alone, beside = (r_of(h, corpus, labels, tested) for h, labels in zip(heads, both, strict=True))
    assert heads[1].annotators == ["p0", "p1", "p2"]
    assert beside > alone + 0.1
    Evaluator(corpus.question, (), heads[1], head_name="network").save(tmp_path)
    part = corpus.evidence.take(range(5))
    first, then = (each.predict(part, "p1") for each in (heads[1], load_evaluator(tmp_path).head))
    assert [s.value for s in first if isinstance(s, Score)] == pytest.approx(
        [s.value for s in then if isinstance(s, Score)]
    )
