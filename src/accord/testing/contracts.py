"""Contract checks for plug-ins: metrics, formats, judges, selection policies, heads, sources and batch scorers.

The project runs them over its own plug-ins.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from inspect import isgenerator, signature
from multiprocessing.reduction import ForkingPickler
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from accord.edges import BadInput, NotFitted, UnknownName, escape_formula
from accord.evidence import (
    Column,
    EvidenceTable,
    LearnedEvidence,
    Metric,
    MetricSession,
    Source,
    SourceState,
    Training,
    TurnMetric,
)
from accord.formats import Format, Record, admitted
from accord.learning import Head
from accord.methods import TOP, AssertionBudget, Policy, Pool
from accord.models import Judge, Models, check_answer, memory_models, questions_for, run
from accord.redaction import Recognizer, Redactor, recognizers
from accord.scoring import BatchScorer
from accord.testing.synthetic_ratings import Planted, planted
from accord.values import (
    BAD_ROW,
    SCORED,
    UNSCORED,
    Conversation,
    Document,
    Question,
    Rubric,
    Sample,
    Score,
    Turn,
    Unscored,
    load_rubric,
    score_schema,
)

if TYPE_CHECKING:
    import polars as pl

_LONG = "word " * 5000


def probes() -> list[Conversation]:
    """Return conversations that every metric must accept: empty, one-sided, long, other scripts, broken characters."""
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
    """Check that a metric is documented, returns a finite number or `None`, and is deterministic.

    Raises:
        AssertionError: A check fails; the message names the conversation.

    >>> def turns(conversation):
    ...     "Number of turns."
    ...     return float(len(conversation.turns))
    >>> check_metric(turns)
    """
    assert metric.__doc__, "a metric needs a docstring"
    for conversation in probes():
        try:
            values = [metric(conversation) for _ in range(2)]
        except Exception as error:
            raise AssertionError(f"{conversation.id}: the metric raised {type(error).__name__}: {error}") from error
        _are_numbers(values, conversation)


def _are_numbers(values: Sequence[Any], conversation: Conversation) -> None:
    """Check two values of a metric for one conversation."""
    value, again = values
    is_number = isinstance(value, int | float | np.number | np.bool_) and math.isfinite(value)
    assert value is None or is_number, f"{conversation.id}: {value!r} is not a finite number or None"
    assert value == again, f"{conversation.id}: two calls return different values"


def check_recognizer(recognizer: Recognizer) -> None:
    """Check that a recognizer of personal data returns spans of every text, and the same ones twice.

    Raises:
        AssertionError: A check fails; the message names the text.

    >>> import re
    >>> def customers(text):
    ...     "Customer numbers, such as K-1234."
    ...     return [(match.start(), match.end(), "customer") for match in re.finditer("K-[0-9]{4}", text)]
    >>> check_recognizer(customers)
    """
    assert recognizer.__doc__, "a recognizer needs a docstring"
    recognizers.register(_CHECKED)(recognizer)
    try:
        for text in (
            "",
            "K-1234 called +49 30 1234567.",
            "電話は０９０です \u200b\ud800",
            "1" * 1000,
            "<EMAIL_1> a@b.example",
        ):
            shown = text[:40].encode("ascii", "backslashreplace").decode()
            try:
                found = [Redactor((), (_CHECKED,)).find(text) for _ in range(2)]
            except BadInput as error:
                raise AssertionError(f"{shown!r}: {error}") from error
            assert found[0] == found[1], f"{shown!r}: two calls return different spans"
    finally:
        recognizers.forget(_CHECKED)


_CHECKED = "checked"


def check_turn_metric(metric: TurnMetric) -> None:
    """Check that a metric of replies is documented, returns a finite number or `None`, and is deterministic.

    Raises:
        AssertionError: A check fails; the message names the conversation.

    >>> def words(reply, history, documents):
    ...     "Number of words."
    ...     return float(len(reply.tokens))
    >>> check_turn_metric(words)
    """
    assert metric.__doc__, "a metric needs a docstring"
    for conversation in probes():
        values = []
        for _ in range(2):
            session = MetricSession({"metric": metric}, [document.text for document in conversation.documents])
            values.append([session.reply(turn.content)["metric"] for turn in conversation.turns])
        for pair in zip(*values, strict=True):
            _are_numbers(pair, conversation)


def check_format(
    format: Format, rows: Sequence[Mapping[str, Any]] = (), lines: Sequence[str] = (), conversations: int = 1
) -> list[Record]:
    """Check that a format recognizes its rows and no others, and reads them as conversations with texts and roles.

    Args:
        format: The format.
        rows: Rows of a file, in order.
        lines: Lines of a text log in place of rows, for a format with `parse`.
        conversations: Number of conversations in them.

    Returns:
        The conversations with their labels.

    Raises:
        AssertionError: A check fails; the message names the row or the conversation.

    >>> def convert(rows, name):
    ...     "Convert the lines of one ticket."
    ...     return Record(Conversation(rows[0]["ticket"], tuple(Turn(row["role"], row["text"]) for row in rows)))
    >>> def parse(line):
    ...     ticket, role, text = line.split(" ", 2)
    ...     return {"ticket": ticket, "role": role, "text": text}
    >>> tickets = Format(lambda row: "ticket" in row, convert, key=lambda row: row["ticket"], parse=parse)
    >>> [record] = check_format(tickets, lines=["T1 user Hi.", "T1 assistant Hello!"])
    >>> record.conversation.turns[1].content
    'Hello!'
    """
    assert isinstance(format, Format), f"a format is accord.formats.Format(matches=..., convert=...), got {format!r}"
    assert format.convert.__doc__, "`convert` needs a docstring, which `accord plugins` shows"
    rows = _parsed(format, lines) if lines else rows
    assert rows, "at least one row of the format is needed"
    for number, row in enumerate(rows, 1):
        assert isinstance(row, Mapping), f"row {number}: a row is a mapping, got {type(row).__name__}"
        assert format.matches(row) is True or number > 1, "`matches` returns True for the first row of a file"
    others: list[dict[str, Any]] = [{}, {"messages": []}, {"id": 1, "x": None}, {"prompt": "Hi.", "response": "Hello!"}]
    for other in others:
        assert not format.matches(other), f"`matches` returns False for a row of another format: {other}"
    found = [format.convert(group, f"row-{place}") for place, group in enumerate(_by_conversation(format, rows), 1)]
    records = [admitted(record) for record in found if record is not None]
    assert len(records) == conversations, f"{len(records)} conversations were read, not {conversations}"
    for record in records:
        chat = record.conversation
        assert isinstance(chat.id, str) and chat.id, f"the id of a conversation is a text, got {chat.id!r}"
        assert chat.turns or record.labels or record.annotations, f"{chat.id}: neither turns nor labels"
    return records


def _parsed(format: Format, lines: Sequence[str]) -> list[Mapping[str, Any]]:
    """Return the rows of a text log; a line of another format must not fail."""
    assert format.parse is not None, "a format that reads text logs has `parse`"
    rows = [row for line in lines if (row := format.parse(line)) is not None]
    format.parse("\ufffd no line of this format \t|")
    return rows


def _by_conversation(format: Format, rows: Sequence[Mapping[str, Any]]) -> Iterable[list[Mapping[str, Any]]]:
    """Return the rows of each conversation."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for number, row in enumerate(rows, 1):
        for part in [row] if format.split is None else format.split(row):
            key = None if format.key is None else format.key(part)
            assert key is None or isinstance(key, str), (
                f"row {number}: the key of a conversation is a text, got {key!r}"
            )
            groups.setdefault(number if key is None else key, []).append(part)
    return groups.values()


class _Asked(NamedTuple):
    sample: Sample
    answers: Any


def check_judge(judge: Judge, rubric: Rubric | None = None) -> None:
    """Check that a judge answers every question with a probability for each option, and tells its requests apart.

    Args:
        judge: The judge; it is asked about conversations of `probes`.
        rubric: Questions; by default the shipped rubric `llm-rubric`.

    Raises:
        AssertionError: A check fails; the message names the conversation and the question.

    >>> from accord.models import ScriptedJudge
    >>> check_judge(ScriptedJudge(lambda sample, question: {"1": 1.0}))
    """
    for name in ("name", "mode", "together"):
        assert hasattr(judge, name), f"a judge has the attribute {name!r}"
    questions = questions_for(judge, rubric or load_rubric("llm-rubric"))[: judge.together]
    samples = [Sample(conversation) for conversation in probes() if conversation.turns]

    async def ask() -> list[_Asked]:
        return [_Asked(sample, await judge.answer(sample, questions)) for sample in samples]

    for sample, answers in asyncio.run(ask()):
        name = sample.conversation.id
        assert isinstance(answers, Sequence) and len(answers) == len(questions), f"{name}: one answer per question"
        for answer, question in zip(answers, questions, strict=True):
            checked = check_answer(answer, question)
            assert checked is answer, f"{name}: {getattr(checked, 'detail', checked)}"
    keys = {
        json.dumps(judge.made_from(sample, question), sort_keys=True) for sample in samples for question in questions
    }
    assert len(keys) == len(samples) * len(questions), "`made_from` differs for each conversation and question"


def check_selection_policy(policy: Policy) -> None:
    """Check that a selection policy is documented, selects each row at most once, and depends on its seed only.

    Raises:
        AssertionError: A check fails.

    >>> from accord.methods import selection_policies
    >>> check_selection_policy(selection_policies.get("correctness"))
    """
    assert policy.__doc__, "a selection policy needs a docstring"
    rng = np.random.default_rng(0)
    sat, good = np.arange(20) % 2 == 0, np.arange(30) % 3 > 0
    points = np.where(sat, 1, -1)[:, None] * rng.integers(0, TOP, (20, 30))
    pool = Pool(points.astype(np.int32), sat, good, np.ones(20))
    chosen = list(policy(pool, AssertionBudget(3, 4), 1))
    assert chosen and len(set(chosen)) == len(chosen), "a policy selects each assertion at most once"
    assert set(chosen) <= set(range(20)), "a policy returns rows of the pool"
    assert list(policy(pool, AssertionBudget(3, 4), 1)) == chosen, "the same seed returns the same rows"


def check_head(make: Callable[[Question], Head], corpus: Planted | None = None) -> None:
    """Check that a head predicts only after `fit`, scores every row, finds columns by name, and survives a save.

    Args:
        make: Makes the head for a question.
        corpus: Training data; by default a few synthetic features.

    Raises:
        AssertionError: A check fails.

    >>> from accord.learning import heads
    >>> check_head(heads.get("constant"))
    """
    corpus = corpus or planted(conversations=60, annotators=3)
    head = make(corpus.question)
    assert isinstance(getattr(head, "method", None), str), "a head has a name in `method`"
    unstored = [name for name in signature(type(head)).parameters if name != "question" and not hasattr(head, name)]
    assert not unstored, f"the constructor stores each setting under its name: {', '.join(unstored)}"
    if not head.is_fitted:
        _raises(NotFitted, lambda: head.predict(corpus.evidence))
    assert head.fit(corpus.evidence, corpus.labels) is head, "fit returns self"
    assert head.is_fitted, "is_fitted is True after fit"
    _raises(UnknownName, lambda: head.predict(corpus.evidence, annotator="nobody"))
    scores = head.predict(corpus.evidence)
    assert len(scores) == len(corpus.evidence), "one score per row"
    for score in scores:
        assert isinstance(score, Score), "a row with complete evidence has a score"
        assert math.isclose(sum(score.probabilities), 1.0, abs_tol=1e-9), "probabilities sum to 1"
        low, high = score.interval
        assert low <= high, "low <= high"
        assert min(score.options) <= score.value <= max(score.options), "a value is on the scale"
    card, arrays = head.state()
    again = make(corpus.question).restore(json.loads(json.dumps(card)), arrays)
    assert again.settings() == head.settings(), "settings survive save and load"
    assert again.predict(corpus.evidence) == scores, "predictions survive save and load to the last digit"
    assert again.annotators == head.annotators, "annotators survive save and load"
    wider = replace(
        corpus.evidence,
        columns=(Column("another", "another"), *corpus.evidence.columns),
        values=np.insert(corpus.evidence.values, 0, 9.0, axis=1),
        present=np.insert(corpus.evidence.present, 0, True, axis=1),
    )
    try:
        is_by_name = again.predict(wider) == scores
    except Exception as error:
        raise AssertionError(f"{_BY_NAME}; a further column raised {type(error).__name__}: {error}") from error
    assert is_by_name, f"{_BY_NAME}; a further column changes the scores"
    json.dumps(head.describe())
    nothing = corpus.evidence.with_only(np.zeros_like(corpus.evidence.present))
    for result in again.predict(nothing):
        assert isinstance(result, Score | Unscored), "a row without evidence has a score, or Unscored with a reason"


_BY_NAME = "a head finds its columns by name, as `evidence.align(columns)` does"


def check_source(make: Callable[[], Source], train: Training, models: Models | None = None) -> EvidenceTable:
    """Check that a source measures every sample in order, is deterministic, and survives save and load.

    Args:
        make: Makes the source before it learns.
        train: Training data.
        models: Models to ask; by default none.

    Returns:
        Evidence of the training samples, measured after learning.

    Raises:
        AssertionError: A check fails.

    >>> from accord.evidence import SourceContext, make_source
    >>> from accord.values import Label, Labels, Rubric, Sample
    >>> question = planted(conversations=2).question
    >>> samples = tuple(Sample(Conversation(name, (Turn("user", "Hi."), Turn("assistant", "Hello!")))) for name in "ab")
    >>> train = Training(samples, Labels(Label(each.target, "main", "ann", 1) for each in samples), question)
    >>> context = SourceContext(Rubric(name="r", questions=(question,), main="main"))
    >>> len(check_source(lambda: make_source("metrics", {"names": ["words"]}, context), train))
    2
    """
    opened = models or memory_models()
    assert isinstance(make(), Source), f"`make` returns a Source, got {type(make()).__name__}"
    assert type(make()).__doc__, "a source needs a docstring"
    assert isgenerator(make().measure(train.samples)), "`measure` is a generator; see accord.models.without_requests"
    learned = run(make().learn(train), opened)
    assert isinstance(learned, LearnedEvidence), "`learn` returns LearnedEvidence"
    assert isinstance(learned.evidence, EvidenceTable), "`measure` and `learn` return an EvidenceTable"
    targets = [sample.target for sample in train.samples]
    assert list(learned.evidence.targets) == targets, "learned evidence has the training samples in order"
    table = run(learned.source.measure(train.samples), opened)
    assert list(table.targets) == targets, "one row per sample, in order"
    _same(table, run(learned.source.measure(train.samples), opened), "two calls return the same evidence")
    state = learned.source.state()
    again = make().restored(
        SourceState(json.loads(json.dumps(dict(state.card))), dict(state.arrays), dict(state.files))
    )
    again.name = learned.source.name
    assert again.roles == learned.source.roles, "roles survive save and load"
    _same(table, run(again.measure(train.samples), opened), "evidence survives save and load")
    json.dumps(dict(learned.source.describe()))
    return table


PICKLED_BYTES = 1_000_000
"""Largest size of a pickled batch scorer."""


def probe_rows() -> list[dict[str, Any]]:
    """Return rows that a batch scorer must accept: conversations, a repeated id, a missing id, invalid rows."""
    rows: list[dict[str, Any]] = [
        {
            "id": conversation.id,
            "messages": json.dumps([{"role": t.role, "content": t.content} for t in conversation.turns]),
        }
        for conversation in probes()
    ]
    bad = [{"id": "no-messages"}, {"id": "no-json", "messages": "[{"}, {"id": "no-role", "messages": '[{"text": 1}]'}]
    return [*rows, *bad, rows[2], {"messages": rows[3]["messages"]}]


def check_batch_scorer(scorer: BatchScorer, rows: Sequence[Mapping[str, Any]] = ()) -> None:
    """Check that a batch scorer is pure, keeps order and count, ignores batch borders, and fails for no row.

    Args:
        scorer: Scorer of a saved evaluator.
        rows: Further conversations, besides `probe_rows`.

    Raises:
        AssertionError: A check fails.

    >>> from accord.testing import sample_project
    >>> with sample_project() as project:
    ...     check_batch_scorer(BatchScorer(project.fit("constant").folder))
    """
    import polars as pl

    all_rows = [*probe_rows(), *rows]
    names = dict.fromkeys(name for row in all_rows for name in row)
    plain = [{name: _as_cell(row.get(name)) for name in names} for row in all_rows]
    batch = pl.DataFrame(plain, infer_schema_length=None)
    whole = scorer(batch)
    assert whole.schema == score_schema(), "the columns follow score_schema()"
    assert scorer(batch[:0]).schema == score_schema(), "an empty batch has the same columns"
    assert len(whole) == len(batch), "one score per row"
    with_id = [(row, name) for row, name in enumerate(batch["id"]) if name is not None]
    assert all(whole["conversation"][row] == escape_formula(name) for row, name in with_id), (
        "scores keep the order of rows"
    )
    kinds = set(whole["status"])
    assert kinds <= {SCORED, UNSCORED, BAD_ROW} and BAD_ROW in kinds, "an invalid row has the status bad_row"
    for status, value, reason in whole.select("status", "value", "unscored").iter_rows():
        assert (status == SCORED) == (value is not None) == (reason is None), "a row has a score or a reason"
    _same_scores(whole, scorer(batch), "two calls return the same scores")
    parts = [
        scorer(batch[start : start + len(batch) // 10 + 1]) for start in range(0, len(batch), len(batch) // 10 + 1)
    ]
    _same_scores(whole, pl.concat(parts), "ten batches give the same scores as one")
    backwards = scorer(batch.reverse())
    _same_scores(whole, backwards.reverse(), "the score of a row does not depend on earlier rows")
    pickled = bytes(ForkingPickler.dumps(scorer))
    assert len(pickled) < PICKLED_BYTES, f"pickled: {len(pickled):,} bytes, at most {PICKLED_BYTES:,} allowed"
    _same_scores(whole, ForkingPickler.loads(pickled)(batch), "scores survive pickling")


def _as_cell(value: Any) -> Any:
    """Return a cell value, nested values as JSON."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def _same_scores(one: pl.DataFrame, other: pl.DataFrame, what: str) -> None:
    """Compare rows; numbers to twelve digits, because a sum over a batch depends on its size."""
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
