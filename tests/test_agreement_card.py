"""Agreement cards: provenance, figures of the saved evaluator, digests, gate, held-out sets and hostile files."""

from __future__ import annotations

import csv
import html
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import accord
from accord import Project
from accord.cli import app
from accord.decisions import AgreementCard
from accord.decisions.card_files import card_badge, card_markdown
from accord.edges import BadInput, GateFailed
from accord.formats import is_machine
from accord.learning import stratified_targets
from accord.project import CardOptions, card_of, config_from, load_project
from accord.sample import sources
from accord.table_check import card_of_check
from accord.values import Target, dump_rubric

SETTINGS: dict[str, Any] = {"metrics": ["words", "turns"], "draws": 20, "folds": 2, "repeats": 1, "curve_draws": 1,
                            "evaluators": {"default": {"head": "mixed"}}}  # fmt: skip
HALF = 70
"""Conversations to learn from; the others are held out."""


def halves(folder: Path) -> dict[str, Path]:
    """Write the sample's conversations and ratings as two pairs of files, without a conversation in both."""
    chats, labels = (Path(each) for each in sources())
    lines = [line for line in chats.read_text(encoding="utf-8").splitlines() if line.strip()]
    learned = {str(json.loads(line)["id"]) for line in lines[:HALF]}
    with labels.open(encoding="utf-8", newline="") as stream:
        rows = list(csv.DictReader(stream))
    files = {}
    for name, is_own in (("own", True), ("other", False)):
        kept = [line for line in lines if (str(json.loads(line)["id"]) in learned) == is_own]
        files[f"{name}-chats"] = folder / f"{name}-chats.jsonl"
        files[f"{name}-chats"].write_text("\n".join(kept) + "\n", encoding="utf-8")
        files[f"{name}-labels"] = folder / f"{name}-labels.csv"
        with files[f"{name}-labels"].open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(row for row in rows if (row["conversation"] in learned) == is_own)
    return files


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project folder with a fitted evaluator, and files that it never saw."""
    root = tmp_path_factory.mktemp("card")
    files = halves(root)
    with Project(config_from({"store": f"sqlite:///{root}/accord.db", **SETTINGS}, folder=root)) as project:
        project.import_([files["own-chats"], files["own-labels"]])
        (root / "rubric.yaml").write_text(dump_rubric(project.rubric), encoding="utf-8")
        project.fit("default")
    text = json.dumps({"store": f"sqlite:///{root}/accord.db", "rubric": "rubric.yaml", **SETTINGS})
    (root / "accord.yaml").write_text(text, encoding="utf-8")
    return root


@pytest.fixture
def project(folder: Path) -> Iterator[Project]:
    with Project(load_project(folder / "accord.yaml")) as opened:
        yield opened


@pytest.fixture(scope="module")
def card(folder: Path) -> AgreementCard:
    with Project(load_project(folder / "accord.yaml")) as opened:
        return card_of(opened)


def test_card_has_the_figures_of_the_comparison(project: Project, card: AgreementCard) -> None:
    found = project.fit_offline("default")
    assert found.held_out is not None and found.comparison is not None
    row, verdict = found.comparison.results[0], found.held_out.verdict
    first = card.agreement[0]
    assert (first.pooled.value, first.pooled.low) == (row.estimates["pearson"].value, row.estimates["pearson"].low)
    assert first.error.value == verdict.figures.error and first.labels == row.n == card.labels.count
    assert first.within_annotators.value == row.within["annotators"].pearson.value
    assert (card.title, card.state, len(card.rules)) == (verdict.title, verdict.state, len(verdict.checks))
    assert card.labels.conversations == HALF and sum(card.labels.annotators) == card.labels.count
    assert {each.name for each in card.baselines} >= {"constant", "best-column"}
    assert {each.by for each in card.groups} == {"system"} and sum(card.labels.systems.values()) == HALF


def test_card_names_no_annotator_and_no_path(folder: Path, project: Project, card: AgreementCard) -> None:
    text = json.dumps(card.signed()) + card_markdown(card) + card_badge(card)
    people = {label.annotator for label in project.store.labels()}
    assert people and not [name for name in people if f'"{name}"' in text or f" {name} " in text]
    assert str(folder) not in text


def test_changed_card_is_refused(tmp_path: Path, card: AgreementCard) -> None:
    path = tmp_path / "card.json"
    path.write_text(json.dumps(card.signed() | {"title": "Ready for single conversations"}), encoding="utf-8")
    with pytest.raises(BadInput, match="was changed after it was written"):
        AgreementCard.read(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not valid JSON"), ("[]", "is no agreement card"), ("{}", "is no agreement card"),
        ('{"format": 7}', "reads 1"), ('{"format": "<b>"}', "card format <b>"), ("[" * 5000, "not valid JSON"),
        ('{"format": 1, "unknown": 1}', "is no agreement card"), ("\x00\xff", "card.json"),
    ],
)  # fmt: skip
def test_file_that_is_no_card_is_a_clear_error(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "card.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BadInput, match=message.replace("(", r"\(")):
        AgreementCard.read(path)
    with pytest.raises(BadInput, match="no such file"):
        AgreementCard.read(tmp_path / "missing.json")


def test_gate_passes_for_the_project_that_the_card_describes(folder: Path, project: Project) -> None:
    project.card(folder / "card.json")
    checks = project.gate(card=folder / "card.json", min_agreement=-1, min_within=-1)
    assert [check.condition.partition(" ")[0] for check in checks] == [
        "verdict", "evaluator", "question", "scale", "rubric", "judge", "labels", "r", "r",
    ]  # fmt: skip
    with pytest.raises(GateFailed, match=r"1 of 8 conditions not met: r with people on the card, lower bound"):
        project.gate(card=folder / "card.json", min_agreement=0.999)
    with pytest.raises(BadInput, match="a correlation lies between"):
        project.gate(card=folder / "card.json", min_within=2)


def test_gate_names_what_has_changed_since_the_card(folder: Path, tmp_path: Path, project: Project) -> None:
    rubric = project.rubric
    changed = rubric.model_copy(update={"questions": tuple(
        each.model_copy(update={"text": f"{each.text} Really?"}) if each.id == rubric.main else each
        for each in rubric.questions
    )})  # fmt: skip
    project.card(folder / "card.json")
    with (
        Project(load_project(folder / "accord.yaml"), rubric=changed) as other,
        pytest.raises(GateFailed, match="rubric of the card: failed: the rubric was changed: s256"),
    ):
        other.gate(card=folder / "card.json")
    now = AgreementCard.read(folder / "card.json")
    for part, update in {
        "evaluator": {"subject": now.subject.model_copy(update={"digest": "s256:0"})},
        "judge model": {"subject": now.subject.model_copy(update={"models": {"judge": "other-model"}})},
        "labels": {"labels": now.labels.model_copy(update={"digest": "s256:0"})},
        "scale": {"question": now.question.model_copy(update={"scale": "1..9"})},
    }.items():
        path = tmp_path / "other.json"
        path.write_text(json.dumps(now.model_copy(update=update).signed()), encoding="utf-8")
        with pytest.raises(GateFailed, match=f"1 of 7 conditions not met: {part} of the card: failed"):
            project.gate(card=path)


def test_gate_fails_if_scored_conversations_have_moved(
    folder: Path, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.card(folder / "card.json")
    rows = [{"feature": "words", "stability": 0.9, "is_shifted": True}]
    monkeypatch.setattr("accord.verbs.gate.latest_drift", lambda *_: rows)
    with pytest.raises(GateFailed, match="conversations of the card: failed: .* differ from those of the card: words"):
        project.gate(card=folder / "card.json")


def test_card_of_ratings_changed_since_the_fit_is_refused(folder: Path, project: Project) -> None:
    saved = project.load()
    assert saved.held_out is not None
    other = replace(saved, held_out=replace(saved.held_out, new=saved.held_out.new[::-1]))
    other.save(folder / "evaluators" / "changed")
    with pytest.raises(BadInput, match="were changed since it was fitted"):
        card_of(project, "changed")


def test_ratings_by_models_are_refused_unless_declared(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("accord.decisions.agreement_card.is_machine", lambda name: True)
    with pytest.raises(BadInput, match="look like those of a model"):
        card_of(project)
    declared = card_of(project, options=CardOptions(made_by="models"))
    assert declared.labels.made_by == "models" and "says nothing about agreement with people" in declared.limits[0]


@pytest.mark.parametrize("name", ["gpt-4o", "GPT4", "claude-3-opus", "llama3", "LLM", "judge", "gemini-pro", "qwen2.5", "the model"])  # fmt: skip
def test_model_names(name: str) -> None:
    assert is_machine(name)


@pytest.mark.parametrize("name", ["Claude", "ana", "Roberta", "Phil", "Judy", "Botond", "annotator-1", "李", ""])
def test_names_of_people(name: str) -> None:
    assert not is_machine(name)


def test_held_out_set_is_measured_and_each_use_is_recorded(folder: Path, project: Project) -> None:
    before = project.store.count_conversations(), len(project.store.labels())
    files = (folder / "other-chats.jsonl", folder / "other-labels.csv")
    first, second = (card_of(project, options=CardOptions(held_out=files)) for _ in range(2))
    assert (first.test.method, first.test.uses, second.test.uses) == ("held-out set", 1, 2)
    assert any("was used 2 times" in line for line in second.limits) and not any("used" in x for x in first.limits)
    assert first.labels.conversations == 150 - HALF and first.agreement[0].error.value is not None
    assert {each.name for each in first.baselines} >= {"constant"}
    assert (project.store.count_conversations(), len(project.store.labels())) == before


def test_held_out_scores_are_those_of_scoring(folder: Path, tmp_path: Path, project: Project) -> None:
    card = card_of(project, options=CardOptions(held_out=(folder / "other-chats.jsonl", folder / "other-labels.csv")))
    with Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db", **SETTINGS}, folder=tmp_path)) as other:
        done = other.score(folder / "other-chats.jsonl", evaluator=project.load())
        scores = {row["conversation"]: row["value"] for row in done}
    with (folder / "other-labels.csv").open(encoding="utf-8", newline="") as stream:
        rated = [row for row in csv.DictReader(stream) if row["Q0"]]
    errors = [(scores[row["conversation"]] - float(row["Q0"])) ** 2 for row in rated]
    assert card.agreement[0].error.value == pytest.approx((sum(errors) / len(errors)) ** 0.5, abs=1e-6)


def test_held_out_set_that_was_learned_from_is_refused(folder: Path, project: Project) -> None:
    files = (folder / "own-chats.jsonl", folder / "own-labels.csv")
    with pytest.raises(BadInput, match=f"learned from {HALF} conversations of the held-out files"):
        card_of(project, options=CardOptions(held_out=files))
    with pytest.raises(BadInput, match="have no ratings"):
        card_of(project, options=CardOptions(held_out=(folder / "other-chats.jsonl",)))


def test_hostile_names_are_escaped(card: AgreementCard) -> None:
    hostile = "<script>alert(1)</script> [x](javascript:1) | `a`\n# b"
    changed = card.model_copy(update={"project": hostile, "title": hostile, "limits": [hostile]})
    text = card_markdown(changed)
    assert "<script" not in text.replace("\\<script", "") and "[x](" not in text.replace("\\[x\\](", "")
    assert "\n# b" not in text and "<script" not in card_badge(changed)


def test_differences_name_the_fields(card: AgreementCard) -> None:
    other = card.model_copy(update={"state": "single", "labels": card.labels.model_copy(update={
        "count": 3, "systems": {}})})  # fmt: skip
    fields = {field: (old, new) for field, old, new in card.differences(other)}
    assert fields["state"] == (card.state, "single") and fields["labels.count"][1] == "3"
    assert fields["labels.systems.assistant-a"][1] == "–" and not card.differences(card)


def test_published_schema_is_that_of_the_code() -> None:
    schema = json.loads((Path(__file__).parents[1] / "docs" / "agreement-card.schema.json").read_text(encoding="utf-8"))
    assert schema == AgreementCard.model_json_schema()


def test_commands_write_compare_and_check_a_card(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    runner = CliRunner()
    made = runner.invoke(app, ["card", "--out", "one.json", "--json"])
    assert made.exit_code == 0, made.output
    assert json.loads(made.stdout)["files"] == ["one.json", "one.md", "one.svg"]
    assert all((folder / name).stat().st_size > 300 for name in ("one.json", "one.md", "one.svg"))
    again = runner.invoke(app, ["card", "write", "default", "--out", "two.json"])
    assert again.exit_code == 0 and "card in two.json, two.md, two.svg" in again.stdout
    changes = runner.invoke(app, ["card", "diff", "one.json", "two.json", "--json"])
    assert {row["field"] for row in json.loads(changes.stdout)["differences"]} <= {"test.uses"}
    assert runner.invoke(app, ["gate", "--card", "one.json"]).exit_code == 0
    assert runner.invoke(app, ["gate", "--card", "one.json", "--min-within", "0.99"]).exit_code == 3
    for wrong in (["card", "--labels-by", "robots"], ["card", "nobody"], ["card", "--out", "card.txt"],
                  ["gate", "--card", "accord.yaml"], ["card", "--out", "rubric.yaml"]):  # fmt: skip
        result = runner.invoke(app, wrong)
        assert result.exit_code in (1, 2) and "Traceback" not in result.output, wrong


def test_labels_for_agreement_are_one_random_text_of_each_stratum() -> None:
    targets = [Target(str(place)) for place in range(100)]
    score = np.arange(100) / 10
    drawn = [stratified_targets(targets, score, targets[:20], 8, seed) for seed in range(400)]
    for found in drawn:
        assert [(int(each.conversation) - 20) // 10 for each in found] == list(range(8))
    counts = np.bincount([int(each.conversation) for found in drawn for each in found], minlength=100)
    assert not counts[:20].any() and counts[20:].min() > 15 and counts[20:].max() < 75  # every text has the same chance
    assert drawn[0] == stratified_targets(targets, score, targets[:20], 8, 0) != drawn[1]
    assert len(stratified_targets(targets, np.full(100, np.nan), (), 1000)) == 100
    assert stratified_targets(targets, score, targets, 5) == []


def test_label_next_suggests_a_sample_for_agreement(folder: Path, project: Project) -> None:
    project.import_([folder / "other-chats.jsonl"])
    rated = {label.target.conversation for label in project.rated(project.question.id)}
    found = project.label_next(12, purpose="agreement")
    names = [each.conversation for each in found]
    assert len(set(names)) == 12 and not rated & set(names)
    assert {each.reason for each in found} == {"one of 12 strata of equal size, by score"}
    runner = CliRunner()
    wrong = runner.invoke(app, ["label", "next", "--for", "fun", "--config", str(folder / "accord.yaml")])
    assert wrong.exit_code in (1, 2) and "fun" in wrong.output + wrong.stderr


def rows_of_judge(person: str = "human") -> list[dict[str, Any]]:
    rows = [{"id": f"a{n}", "judge": "pass", person: "pass" if n % 4 else "fail"} for n in range(40)]
    rows += [{"id": f"b{n}", "judge": "fail", person: "fail"} for n in range(40)]
    return [*rows, *({"id": f"c{n}", "judge": ("pass", "fail")[n % 2], person: None} for n in range(120))]


def test_card_of_a_table_has_the_figures_of_the_check() -> None:
    result = accord.check(rows_of_judge())
    card = card_of_check(result)
    main, mean = result.main, card.mean
    assert (card.subject.kind, card.test.method, card.labels.count) == ("judge", "table", 80)
    assert (card.agreement[0].statistic, card.agreement[0].pooled.low) == (main.statistic, main.judge.low)
    assert mean is not None and mean.corrected.value == result.means.corrected.value
    assert len(card.statistics) == len(result.agreement) and card.is_intact
    assert "judge with people" in card_markdown(card) and f"{main.statistic} ≥" in html.unescape(card_badge(card))
    assert card_of_check(accord.check(rows_of_judge()[::-1])).labels.digest == card.labels.digest
    changed = rows_of_judge()
    changed[0]["human"] = "pass"
    assert card_of_check(accord.check(changed)).labels.digest != card.labels.digest


def test_card_of_a_table_refuses_labels_by_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = accord.check(rows_of_judge("gpt_4o_label"), judge="judge", human="gpt_4o_label")
    with pytest.raises(BadInput, match="look like those of a model"):
        card_of_check(result)
    assert card_of_check(result, "models").labels.made_by == "models"


def test_check_writes_a_card_that_a_gate_requires(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    table = tmp_path / "results.csv"
    with table.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, ["id", "judge", "human"])
        writer.writeheader()
        writer.writerows(rows_of_judge())
    runner = CliRunner()
    done = runner.invoke(app, ["check", str(table), "--card", str(tmp_path / "card.json")])
    assert done.exit_code == 0, done.output
    passing = ["gate", "--card", str(tmp_path / "card.json"), "--min-agreement"]
    assert runner.invoke(app, [*passing, "0.3"]).exit_code == 0
    failed = runner.invoke(app, [*passing, "0.99"])
    assert failed.exit_code == 3 and "on the card, lower bound" in failed.output
    wrong = runner.invoke(app, ["check", str(table), "--labels-by", "robots", "--card", str(tmp_path / "c.json")])
    assert wrong.exit_code in (1, 2) and "allowed are people and models" in wrong.output
