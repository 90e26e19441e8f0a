"""What every plug-in of a kind keeps; the project runs these over its own, and you can over yours."""

from __future__ import annotations

import json
import math
from collections.abc import Callable

import numpy as np

from accord.evidence import EvidenceTable, Metric, Source, State, Training
from accord.learning import Head
from accord.methods import TOP, Budget, Policy, Pool
from accord.models import Models, memory_models, run
from accord.testing.corpus import Planted, planted
from accord.values import Conversation, Document, NotFitted, Question, Score, Turn, UnknownName

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


def _same(one: EvidenceTable, other: EvidenceTable, what: str) -> None:
    assert [column.name for column in one.columns] == [column.name for column in other.columns], what
    assert (one.present == other.present).all() and (one.values == other.values).all(), what


def _raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
