"""The judge of the demo: its recorded answers, and what the first screen says of it, also of a judge that does not help."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
from commands import printed
from small_sample import sources

from accord import load_rubric
from accord.formats import read
from accord.models import ScriptedJudge, read_recordings
from accord.report.judge_alone import check_of_judge, judge_sections
from accord.results import section_text
from accord.sample import judgments
from accord.sample import sources as whole
from accord.testing import sample_project
from accord.values import Question, Sample

JUDGE = {"judge": {"model": "scripted", "mode": "verbalised"}}


@cache
def recorded() -> dict[tuple[str, str], dict[str, float]]:
    [answers] = read_recordings([judgments()]).values()
    return {key: dict(run) for key, [run] in answers.answers.items()}


def test_every_question_that_applies_is_answered_with_a_probability_per_option() -> None:
    rubric, answers = load_rubric("llm-rubric"), recorded()
    asked = {
        (conversation.id, question.id): [str(option) for option in question.scale.options]
        for conversation in (record.conversation for record in read(whole()[0]))
        for question in rubric.questions
        if question.applies_to(conversation, None)
    }
    assert {key: list(answer) for key, answer in answers.items()} == asked and len(asked) == 1258
    assert all(abs(sum(answer.values()) - 1) < 1e-9 for answer in answers.values())


def screen(upside_down: bool = False) -> str:
    """Sections about the shipped judge, or about one whose answers are reversed, on 30 conversations of the sample."""

    def answer(sample: Sample, question: Question) -> dict[str, float]:
        shares = recorded()[sample.conversation.id, question.id]
        return dict(zip(shares, reversed(shares.values()), strict=True)) if upside_down else shares

    with sample_project(30, given={"judge": ScriptedJudge(answer)}, models=JUDGE) as project:
        project.judge()
        tried = project.fit("default").held_out
    assert tried is not None
    checked = check_of_judge(tried)
    assert checked is not None
    return "\n\n".join(map(section_text, judge_sections(tried, checked, "disputed.csv")))


def test_judge_alone_is_shown_with_what_learning_adds_and_the_rows_that_differ() -> None:
    said = screen()
    lines = said.splitlines()
    assert [line.split("  ")[0] for line in lines[1:4]] == [
        "the judge alone",
        "default, learned from it",
        "other people",
    ]
    assert "does not help" not in said and "the judge alone: it" in said and "(in disputed.csv)" in said
    shown = lines[next(place for place, line in enumerate(lines) if line.startswith("largest differences")) + 1 :]
    assert len(shown) == 3 and all(line.startswith("support-") for line in shown)
    assert max(map(len, lines[:4])) <= 80


def test_judge_that_does_not_help_is_called_that_with_its_figure() -> None:
    said = screen(upside_down=True)
    [sentence] = [line for line in said.splitlines() if line.startswith("the judge alone does not help: error ")]
    judge, constant = (float(words.split()[-1]) for words in sentence.split(", of a constant guess"))
    assert judge > constant > 0.5
    assert f"learning from people lowers the judge's error from {judge:.2f}" in said


def test_comparison_without_a_judge_has_no_check() -> None:
    with sample_project() as project:
        tried = project.fit("default").held_out
    assert tried is not None and check_of_judge(tried) is None


def test_demo_shows_the_recorded_judge_and_keeps_its_answers_in_the_folder(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accord.sample.sources", sources)
    said = json.loads(printed("demo", "--out", "tried", "--json"))
    text = json.dumps(said["document"])
    assert "the judge alone" in text and "a language model's answers were recorded" in said["about"]
    assert said["judge"]["labeled"] == 40 and said["judge"]["means"]["rows"]
    assert len(Path("tried/disputed.csv").read_text(encoding="utf-8").splitlines()) == said["judge"]["disputed"] + 1
    assert Path("tried/judgments/judgments.jsonl").read_bytes() == judgments().read_bytes()
    assert "- judgments/judgments.jsonl" in Path("tried/accord.yaml").read_text(encoding="utf-8")
    assert "judge-expected" in Path("tried/report.html").read_text(encoding="utf-8")
