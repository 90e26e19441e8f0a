"""Property tests: rows that the reader accepts pass every later stage up to a score."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_corpus import rated_chats

from accord import Conversation, Evaluator, Rubric, Score, Store, read
from accord.edges import BadRow
from accord.evidence import SourceContext, make_source
from accord.learning import make_head
from accord.models import (
    fenced,
    memory_models,
    run,
)
from accord.models.prompts import prompt_for
from accord.values import Sample, canonical_json, turn_digests

MESSAGES = [{"role": "user", "content": "My parcel is late."}, {"role": "assistant", "content": "It comes on Monday."}]

TEXTS = st.text(st.characters(), max_size=30)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
ANYTHING = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=6
)
ROLES = st.sampled_from(["user", "assistant", "tool", "system"])
MESSAGE = st.fixed_dictionaries(
    {"role": ROLES | ANYTHING, "content": TEXTS | ANYTHING},
    optional={name: ANYTHING for name in ("tool_calls", "name", "time", "parts", "id")},
)
ROW = st.fixed_dictionaries(
    {"messages": st.lists(MESSAGE | ANYTHING, max_size=4) | ANYTHING},
    optional={name: ANYTHING for name in ("id", "documents", "context", "metadata", "meta", "system", "rating")},
) | st.fixed_dictionaries(
    {"conversation_id": TEXTS | ANYTHING, "role": ROLES | ANYTHING, "content": TEXTS | ANYTHING},
    optional={name: ANYTHING for name in ("tool_calls", "turn", "time", "documents", "name")},
)


def let_in(*rows: Any) -> tuple[list[Conversation], list[BadRow]]:
    """Read rows after a valid one."""
    bad: list[BadRow] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return [record.conversation for record in read(path, on_bad_row=bad.append)], bad


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    """An evaluator of cheap metrics, fitted on planted chats."""
    from accord.evidence import Training

    chats, labels, rubric = rated_chats()
    question = rubric[rubric.main]
    context = SourceContext(rubric, 0)
    created = Evaluator(
        question, (make_source("bank", {}, context),), make_head("mixed", question, {}), head_name="mixed"
    )
    return run(created.fit(Training(tuple(map(Sample, chats)), labels, question)), memory_models())


def taken(conversation: Conversation, evaluator: Evaluator, rubric: Rubric) -> None:
    """Run every stage after the reader on a conversation and each of its turns."""
    json.loads(canonical_json(conversation.to_json()), parse_constant=lambda name: pytest.fail(name))
    assert Conversation.from_json(json.loads(canonical_json(conversation.to_json()))) == conversation
    assert len(turn_digests(conversation)) == len(conversation.turns)
    store = Store("sqlite:///:memory:")
    store.add_conversations([conversation])
    assert list(store.conversations()) == [conversation]
    store.close()
    samples = [Sample(conversation), *(Sample(conversation, index) for index in range(len(conversation.turns)))]
    for sample in samples:
        fenced(sample)
        prompt_for(sample, rubric[rubric.main], "", 5)
    for score in run(evaluator.predict(samples), memory_models()):
        if isinstance(score, Score):
            assert math.isfinite(score.value) and math.isclose(sum(score.probabilities), 1, abs_tol=1e-6)
        else:
            assert score.reason


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(row=ROW)
def test_accepted_rows_pass_every_later_stage(row: Any, evaluator: Evaluator, rubric: Rubric) -> None:
    whole = {"id": "good", "messages": MESSAGES}
    for conversation in let_in(whole if "messages" in row else {"conversation_id": "good", **MESSAGES[0]}, row)[0]:
        taken(conversation, evaluator, rubric)


def said(**message: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi", **message}]}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (said(tool_calls=5), "tool calls of turn 1 are a list"),
        (said(tool_calls=[5]), "tool calls of turn 1 are a list"),
        (said(tool_calls="look"), "tool calls of turn 1 are a list"),
        (said(content=5), "content is a string or a list of parts, got int"),
        (said(content={"a": 1}), "content is a string or a list of parts, got dict"),
        (said(role=None), "a message has no role"),
        (said(role=5), "a message has no role"),
        ({**said(), "documents": 5}, "a document is a text"),
        ({**said(), "documents": [[5]]}, "a document is a text"),
        ({"messages": [5]}, "a message is an object"),
    ],
)
def test_an_unusable_row_is_a_bad_row(row: Any, reason: str) -> None:
    result, [bad] = let_in({"id": "good", "messages": MESSAGES}, row)
    assert [each.id for each in result] == ["good"] and reason in bad.reason


def test_metadata_that_is_not_json_becomes_text(evaluator: Evaluator, rubric: Rubric) -> None:
    call = {"function": {"name": "look", "arguments": 5}}
    row = {**said(tool_calls=call, score=math.nan), "metadata": {"a": math.nan, "b": -math.inf, "c": [math.nan, 1.5]}}
    [result], bad = let_in(row)
    assert not bad and result.metadata == {"a": None, "b": "-inf", "c": [None, 1.5]}
    assert result.turns[1].extra == {"tool_calls": [call], "score": None}
    taken(result, evaluator, rubric)
