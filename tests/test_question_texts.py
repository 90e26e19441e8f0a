"""Wording and options of questions that are made from columns of labels."""

from __future__ import annotations

import pytest
from commands import accord, accord_json, printed, write, write_rows

from accord.project import has_generated_text
from accord.values import load_rubric, shipped_rubrics

pytestmark = pytest.mark.usefixtures("working_folder")


def labels(name: str, *values: object) -> str:
    rows = [f"c{place},ann,{value}" for place, value in enumerate(values * 3)]
    return write("labels.csv", "\n".join([f"conversation,annotator,{name}", *rows]) + "\n")


@pytest.mark.parametrize(
    ("name", "values", "text"),
    [
        ("resolved", ("yes", "no"), "Was the request resolved?"),
        ("issue_solved", (0, 1), "Was the request resolved?"),
        ("satisfaction", (1, 2, 5), "How satisfied is the user with the conversation?"),
        ("csat", (1, 3, 5), "How satisfied is the user with the conversation?"),
        ("helpful", (1, 4), "How helpful is the conversation?"),
        ("helpful", ("yes", "no"), "Is the conversation helpful?"),
        ("rating", (1, 3, 4), "How good is the conversation?"),
        ("brand voice", (1, 2, 5), 'How would you rate the conversation on "brand voice"?'),
        ("on_brand", ("yes", "no"), 'Does "on_brand" hold of the conversation?'),
        ("not_resolved", ("yes", "no"), 'Does "not_resolved" hold of the conversation?'),
    ],
)
def test_name_of_a_column_becomes_a_question(name: str, values: tuple[object, ...], text: str) -> None:
    accord("init", "--from", labels(name, *values), "--labels", name)
    [question] = load_rubric("rubric.yaml").questions
    assert question.text == text and question.id == name and has_generated_text(question)


def test_shipped_questions_are_not_taken_for_generated_ones() -> None:
    for name in shipped_rubrics():
        assert not any(map(has_generated_text, load_rubric(name).questions)), name


@pytest.mark.parametrize(
    ("values", "options"),
    [
        (("resolved", "not resolved"), "0 (not resolved), 1 (resolved)"),
        (("unresolved", "resolved"), "0 (unresolved), 1 (resolved)"),
        (("useful", "not useful"), "0 (not useful), 1 (useful)"),
        (("poor", "good", "excellent"), "1 (poor), 2 (good), 3 (excellent)"),
        (("resolved", "escalated"), "escalated, resolved"),
    ],
)
def test_options_keep_the_words_of_the_labels(values: tuple[str, ...], options: str) -> None:
    [row] = accord_json("init", "--from", labels("outcome", *values), "--labels", "outcome")["questions"]
    assert row["scale"] == options
    write_rows("chats.jsonl", ({"id": f"c{n}", "messages": [{"role": "user", "content": "Hi."}]} for n in range(9)))
    assert f"outcome ({len(values) * 3})" in printed("import", "chats.jsonl", "labels.csv")


def test_plain_init_offers_a_rubric_of_the_labels_in_the_folder() -> None:
    write_rows("chats.jsonl", [{"id": "c0", "messages": [{"role": "user", "content": "Hi."}]}])
    assert "init --from" not in printed("init")
    labels("helpful", 1, 2, 4)
    [said] = accord_json("init")["said"]
    assert said == "labels.csv: labels. For a rubric of their questions: accord init --from labels.csv"
    printed(*said.partition(": accord ")[2].split())
    assert load_rubric("rubric-from-labels.yaml").main == "helpful"
