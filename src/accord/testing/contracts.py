"""What every plug-in of a kind keeps; the project runs these over its own, and you can over yours."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable

from accord.evidence import Metric
from accord.learning import Evaluator, load_evaluator
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


def check_evaluator(make: Callable[[Question], Evaluator], corpus: Planted | None = None) -> None:
    """An evaluator refuses to predict before it learned, scores every row, and is the same after save and load.

    Args:
        make: Makes it for a question.
        corpus: What it learns from, where that is not some plain features.

    Raises:
        AssertionError: It does not; says what.
    """
    corpus = corpus or planted(conversations=60, annotators=3)
    evaluator = make(corpus.question)
    if not evaluator.is_fitted:
        _raises(NotFitted, lambda: evaluator.predict(corpus.evidence))
    assert evaluator.fit(corpus.evidence, corpus.labels) is evaluator, "fit returns self"
    assert evaluator.is_fitted, "a fitted evaluator says so"
    _raises(UnknownName, lambda: evaluator.predict(corpus.evidence, annotator="nobody"))
    scores = evaluator.predict(corpus.evidence)
    assert len(scores) == len(corpus.evidence), "one score a row"
    for score in scores:
        assert isinstance(score, Score), "a row with all its evidence has a score"
        assert math.isclose(sum(score.probabilities), 1.0, abs_tol=1e-9), "probabilities sum to 1"
        low, high = score.interval
        assert low <= high, "an interval is not upside down"
        assert min(score.options) <= score.value <= max(score.options), "a value lies on the scale"
    with tempfile.TemporaryDirectory() as folder:
        evaluator.save(folder)
        loaded = load_evaluator(folder)
    assert loaded.settings() == evaluator.settings(), "settings survive save and load"
    assert loaded.predict(corpus.evidence) == scores, "predictions survive save and load to the last digit"
    assert loaded.annotators == evaluator.annotators, "annotators survive save and load"


def _raises(kind: type[Exception], call: Callable[[], object]) -> None:
    try:
        call()
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
