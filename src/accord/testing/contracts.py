"""What every plug-in of a kind keeps; the project runs these over its own, and you can over yours."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from accord.edges import NotFitted, UnknownName, escape_formula
from accord.evidence import Column, EvidenceTable, Metric, Source, State, Training
from accord.formats import BAD_ROW, SCORED, UNSCORED, score_schema
from accord.learning import Head
from accord.methods import TOP, Budget, Policy, Pool
from accord.models import Models, memory_models, run
from accord.scoring import BatchScorer
from accord.values import Conversation, Document, Label, Labels, Question, Scale, Score, Target, Turn

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
_LONG = "word " * 5000


def probes() -> list[Conversation]:
    """Conversations that metrics must survive: empty, one-sided, long, in other scripts, with broken characters."""
    user, reply = Turn("user", "Why is my router blinking?"), Turn("assistant", "It is updating [1]. Sorry!")
    document = Document("The router blinks while it updates.")
    return [
        Conversation("none", ()),
        Conversation("empty", (Turn("user", ""), Turn("assistant", ""))),
        Conversation("plain", (user, reply), (document,)),
        Conversation("no-documents", (user, reply)),
        Conversation("reply-first", (reply, user)),
        Conversation("strangers", (Turn("speaker_a", "hi"), Turn("speaker_b", "hello there"))),
        Conversation("long", (user, Turn("assistant", _LONG)), (Document(_LONG),)),
        Conversation("scripts", (Turn("user", "路由器为什么闪烁？"), Turn("assistant", "إنه يحدّث 🙂"))),
        Conversation("broken", (Turn("user", "a\ud800b\0"), Turn("assistant", "\u202eabc"))),
    ]


def check_metric(metric: Metric) -> None:
    """A metric is documented, gives a finite number or `None`, and the same one twice.

    Raises:
        AssertionError: It does not; says on which conversation.
    """
    assert metric.__doc__, "a metric says in its docstring what it measures"
    for conversation in probes():
        value = metric(conversation)
        assert value is None or math.isfinite(value), f"{conversation.id}: {value!r} is neither a number nor None"
        assert metric(conversation) == value, f"{conversation.id}: two calls give two values"


def check_selection_policy(policy: Policy) -> None:
    """A selection policy is documented, selects rows of the pool once each, and the same ones for the same seed.

    Raises:
        AssertionError: It does not; says what.
    """
    assert policy.__doc__, "a selection policy says in its docstring how it selects"
    rng = np.random.default_rng(0)
    sat, good = np.arange(20) % 2 == 0, np.arange(30) % 3 > 0
    points = np.where(sat, 1, -1)[:, None] * rng.integers(0, TOP, (20, 30))
    pool = Pool(points.astype(np.int32), sat, good, np.ones(20))
    chosen = list(policy(pool, Budget(3, 4), 1))
    assert chosen and len(set(chosen)) == len(chosen), "each rubric at most once"
    assert set(chosen) <= set(range(20)), "rows of the pool"
    assert list(policy(pool, Budget(3, 4), 1)) == chosen, "the same for the same seed"


@dataclass(frozen=True)
class Planted:
    """A drawn corpus and what it was drawn from.

    Attributes:
        question: The main question, with `options` values from 1.
        evidence: (n, p) features of n conversations.
        labels: Every annotator's label on a random half of the conversations, and on at least one.
        weights: (p,) how the latent quality follows from the features.
        levels: How generous each annotator is, in units of the scale.
    """

    question: Question
    evidence: EvidenceTable
    labels: Labels
    weights: Floats
    levels: dict[str, float]

    @classmethod
    def of(
        cls,
        targets: tuple[Target, ...],
        x: Floats,
        labels: list[Label],
        options: int,
        weights: Floats,
        levels: dict[str, float],
    ) -> Planted:
        """Build a corpus from drawn features and labels."""
        columns = tuple(Column(f"f{i}", "planted") for i in range(x.shape[1]))
        evidence = EvidenceTable(targets, columns, x, np.ones(x.shape, dtype=bool))
        question = Question(id="main", text="How good is it?", scale=Scale(options=tuple(range(1, options + 1))))
        return cls(question, evidence, Labels(labels), weights, levels)


def planted(
    conversations: int = 200,
    annotators: int = 6,
    features: int = 3,
    options: int = 4,
    noise: float = 0.5,
    share: float = 0.5,
    seed: int = 0,
) -> Planted:
    """Draw y = round(middle + x·w + level of the annotator + noise), cut to the scale."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(conversations, features))
    weights = np.linspace(0.8, 0.1, features)
    levels = annotator_levels(annotators, 0.6)
    targets = tuple(Target(f"c{i:04d}") for i in range(conversations))
    middle = (1 + options) / 2
    labels = []
    for row, target in enumerate(targets):
        for name, level in levels.items():
            if rng.random() < share:
                value = middle + x[row] @ weights + level + rng.normal(scale=noise)
                labels.append(Label(target, "main", name, int(np.clip(round(value), 1, options))))
    return Planted.of(targets, x, labels, options, weights, levels)


def annotator_levels(annotators: int, most: float) -> dict[str, float]:
    """Return the generosity of each annotator, evenly spaced from -most to most."""
    return dict(zip([f"p{i}" for i in range(annotators)], np.linspace(-most, most, annotators).tolist(), strict=True))


def check_head(make: Callable[[Question], Head], corpus: Planted | None = None) -> None:
    """A head refuses to predict before it learned, scores every row, and is the same after save and load.

    Args:
        make: Makes it for a question.
        corpus: What it learns from, where that is not some plain features.

    Raises:
        AssertionError: It does not; says what.
    """
    corpus = corpus or planted(conversations=60, annotators=3)
    head = make(corpus.question)
    if not head.is_fitted:
        _raises(NotFitted, lambda: head.predict(corpus.evidence))
    assert head.fit(corpus.evidence, corpus.labels) is head, "fit returns self"
    assert head.is_fitted, "a fitted head says so"
    _raises(UnknownName, lambda: head.predict(corpus.evidence, annotator="nobody"))
    scores = head.predict(corpus.evidence)
    assert len(scores) == len(corpus.evidence), "one score a row"
    for score in scores:
        assert isinstance(score, Score), "a row with all its evidence has a score"
        assert math.isclose(sum(score.probabilities), 1.0, abs_tol=1e-9), "probabilities sum to 1"
        low, high = score.interval
        assert low <= high, "an interval is not upside down"
        assert min(score.options) <= score.value <= max(score.options), "a value lies on the scale"
    card, arrays = head.state()
    again = make(corpus.question).restore(json.loads(json.dumps(card)), arrays)
    assert again.settings() == head.settings(), "settings survive save and load"
    assert again.predict(corpus.evidence) == scores, "predictions survive save and load to the last digit"
    assert again.annotators == head.annotators, "annotators survive save and load"
    json.dumps(head.describe())


def check_source(make: Callable[[], Source], train: Training, models: Models | None = None) -> EvidenceTable:
    """A source measures every sample and names itself, and is the same after it was kept and restored.

    Args:
        make: Makes it, before it learns.
        train: What it may learn from.
        models: Whom it asks; without them, nobody.

    Returns:
        Its evidence of the training samples, measured anew.

    Raises:
        AssertionError: It does not; says what.
    """
    asked = models or memory_models()
    assert type(make()).__doc__, "a source says in its docstring what it knows"
    learned = run(make().learn(train), asked)
    targets = [sample.target for sample in train.samples]
    assert list(learned.evidence.targets) == targets, "it knows of what it learned from, in its order"
    table = run(learned.source.measure(train.samples), asked)
    assert list(table.targets) == targets, "a row a sample, in the order that was asked"
    _same(table, run(learned.source.measure(train.samples), asked), "two calls give the same")
    state = learned.source.state()
    again = make().restored(State(json.loads(json.dumps(dict(state.card))), dict(state.arrays), dict(state.files)))
    again.name = learned.source.name
    assert again.roles == learned.source.roles, "whom it asks survives save and load"
    _same(table, run(again.measure(train.samples), asked), "what it measures survives save and load")
    json.dumps(dict(learned.source.describe()))
    return table


PICKLED_BYTES = 1_000_000
"""The most that a batch scorer weighs when it is sent to another process."""


def probe_rows() -> list[dict[str, Any]]:
    """Rows that a batch scorer must survive: conversations, the same id twice, none at all, nonsense."""
    rows: list[dict[str, Any]] = [
        {"id": each.id, "messages": json.dumps([{"role": t.role, "content": t.content} for t in each.turns])}
        for each in probes()
    ]
    bad = [{"id": "no-messages"}, {"id": "no-json", "messages": "[{"}, {"id": "no-role", "messages": '[{"text": 1}]'}]
    return [*rows, *bad, rows[2], {"messages": rows[3]["messages"]}]


def check_batch_scorer(scorer: BatchScorer, rows: Sequence[Mapping[str, Any]] = ()) -> None:
    """A batch scorer is pure, keeps order and count, does not depend on how rows are split, and never fails for a row.

    Args:
        scorer: Of a saved evaluator.
        rows: Conversations of your own, tried beside `probe_rows`.

    Raises:
        AssertionError: It does not; says what.
    """
    import polars as pl

    every = [*probe_rows(), *rows]
    names = dict.fromkeys(name for row in every for name in row)
    plain = [{name: _as_cell(row.get(name)) for name in names} for row in every]
    batch = pl.DataFrame(plain, infer_schema_length=None)
    whole = scorer(batch)
    assert whole.schema == score_schema(), "the columns are those that are published"
    assert scorer(batch[:0]).schema == score_schema(), "and those of a batch without rows too"
    assert len(whole) == len(batch), "a row per row"
    named = [(row, name) for row, name in enumerate(batch["id"]) if name is not None]
    assert all(whole["conversation"][row] == escape_formula(name) for row, name in named), "in order"
    kinds = set(whole["status"])
    assert kinds <= {SCORED, UNSCORED, BAD_ROW} and BAD_ROW in kinds, "a row that is none says so"
    for status, value, reason in whole.select("status", "value", "unscored").iter_rows():
        assert (status == SCORED) == (value is not None) == (reason is None), "a score, or a reason"
    _same_scores(whole, scorer(batch), "two calls give the same")
    parts = [
        scorer(batch[start : start + len(batch) // 10 + 1]) for start in range(0, len(batch), len(batch) // 10 + 1)
    ]
    _same_scores(whole, pl.concat(parts), "ten batches give what one gives")
    backwards = scorer(batch.reverse())
    _same_scores(whole, backwards.reverse(), "a row's score does not depend on what came before it")
    sent = bytes(ForkingPickler.dumps(scorer))
    assert len(sent) < PICKLED_BYTES, f"it weighs {len(sent):,} bytes, at most {PICKLED_BYTES:,}"
    _same_scores(whole, ForkingPickler.loads(sent)(batch), "it is the same after it was sent")


def _as_cell(value: Any) -> Any:
    """What one column holds of all rows: nested values as JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _same_scores(one: pl.DataFrame, other: pl.DataFrame, what: str) -> None:
    """Equal rows; numbers to the twelfth digit, since the order of a sum over a batch depends on its size."""
    import polars.selectors as cs

    assert len(one) == len(other), what
    assert one.select(cs.float().is_null()).equals(other.select(cs.float().is_null())), what
    texts = ~cs.float() - cs.by_name("distribution", "attributions", "notes")
    assert one.select(texts).equals(other.select(texts)), what
    for name in ("value", "low", "high", "band_low", "band_high", "variance", "entropy"):
        pairs = zip(one[name], other[name], strict=True)
        assert all(a is None or math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-12) for a, b in pairs), f"{what}: {name}"


def _same(one: EvidenceTable, other: EvidenceTable, what: str) -> None:
    assert [column.name for column in one.columns] == [column.name for column in other.columns], what
    assert (one.present == other.present).all() and (one.values == other.values).all(), what


def _raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
