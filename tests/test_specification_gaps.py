"""Specification gaps: planted ones are found, others are not named, and a change of the wording is followed."""

from __future__ import annotations

import csv
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from served_workbench import open_workbench, shown_after, token
from typer.testing import CliRunner

from accord import Label, Project
from accord.cli import app
from accord.edges import BadInput
from accord.evidence import Ratings
from accord.project import config_from, load_config
from accord.validation import Property, gap_of, specification_gaps
from accord.values import Target, load_rubric
from accord.web import ProjectFiles

OPTIONS = np.arange(1.0, 6.0)


def rated_by_two(values: np.ndarray, conversations: np.ndarray) -> Ratings:
    labels = [
        Label(Target(f"c{place}"), "q", f"p{row % 2}", float(value))
        for row, (place, value) in enumerate(zip(conversations, values, strict=True))
    ]
    return Ratings(labels, conversations, (values - 1).astype(int), values, OPTIONS)


def planted(
    seed: int, lower: float = 0.0, wide: float = 0.0, related: float = 0.0, size: int = 100, highest: float = np.inf
) -> tuple[Ratings, np.ndarray, list[Property]]:
    """Return ratings of conversations where people rate those with the first property lower, or further apart.

    Properties are more frequent among good conversations if they are `related`, and the judge tells none apart that are
    better than `highest`.
    """
    rng = np.random.default_rng(seed)
    quality, holds = rng.normal(3, 1, size), rng.random((size, 12)) < 0.35
    if related:
        holds = related * (quality - 3)[:, None] + np.sqrt(1 - related**2) * rng.normal(size=(size, 12)) > 0.4
    rows = np.repeat(np.arange(size), 2)
    noise = rng.normal(0, 0.4 + wide * holds[rows, 0])
    values = np.clip(np.round(quality[rows] + noise - lower * holds[rows, 0]), 1, 5)
    judge = (4 + 0.5 * (np.minimum(quality, highest) - 3) + rng.normal(0, 0.3, size))[rows]
    everywhere = np.ones(len(rows), dtype=bool)
    properties = [Property(f"k{n}", f"property {n}", holds[rows, n], everywhere) for n in range(12)]
    return rated_by_two(values, rows), judge, properties


def test_planted_gaps_are_found_with_direction_and_size() -> None:
    rated, judge, properties = planted(0, lower=1.2)
    first, *others = specification_gaps(rated, judge, properties)
    assert (first.against, first.key) == ("judge", "k0") and first.p < 0.01 and not others
    assert first.difference == pytest.approx(-1.0, abs=0.4) and first.difference == gap_of(
        "judge", rated, judge, properties[0]
    )
    assert "property 0: people rate" in str(first) and "lower than the judge's scores suggest" in str(first)
    assert len(first.examples) == 10 and len(set(first.examples)) == 10
    inside = {target for target, holds in zip(rated.target, properties[0].holds, strict=True) if holds}
    assert set(first.examples) <= inside and first.conversations == len(inside)
    rated, judge, properties = planted(1, wide=2.0)
    [found] = [gap for gap in specification_gaps(rated, judge, properties) if gap.against == "people"]
    assert found.key == "k0" and found.difference > 0 and "further apart" in str(found)


def test_false_gaps_are_rare() -> None:
    """The share of worlds with any false gap is at most 5%; `benchmarks/specification_gaps.py` has more of them."""
    assert sum(bool(specification_gaps(*planted(100 + seed))) for seed in range(12)) <= 2


@pytest.mark.parametrize("highest", [np.inf, 3.3])
def test_properties_of_good_conversations_are_no_gap(highest: float) -> None:
    """Good conversations lie above the line of ratings on scores, because the judge errs: that is no gap."""
    for seed in range(4):
        named = specification_gaps(*planted(seed, related=0.7, size=150, highest=highest))
        assert not named, [str(gap) for gap in named]


@pytest.mark.parametrize("lower", [1.2, -1.2])
def test_gap_of_a_property_of_good_conversations_is_found(lower: float) -> None:
    named = specification_gaps(*planted(1, lower=lower, related=0.35, size=150))
    assert [gap.key for gap in named] == ["k0"] and named[0].difference == pytest.approx(-0.9 * np.sign(lower), abs=0.5)


def test_two_strict_people_who_rate_everything_do_not_seem_to_agree() -> None:
    """Their habits cancel in the mean, and must not change the slope of the reversed regression."""
    rated, judge, properties = planted(2, related=0.7, size=150)
    moved = np.clip(rated.value + np.where(rated.annotator == "p0", 1.0, -1.0), 1, 5)
    assert not [gap for gap in specification_gaps(rated_by_two(moved, rated.row), judge, properties)
                if gap.against == "judge"]  # fmt: skip


def test_a_judge_that_is_too_strict_everywhere_has_no_gap() -> None:
    rated, judge, properties = planted(3)
    shifted = specification_gaps(rated, judge - 7, properties)
    assert [gap.key for gap in shifted] == [gap.key for gap in specification_gaps(rated, judge, properties)]


def test_properties_of_the_same_conversations_are_reported_once() -> None:
    rated, judge, properties = planted(0, lower=1.2)
    same = Property("twin", "its twin", properties[0].holds.copy(), properties[0].known)
    opposite = Property("rest", "the rest", ~properties[0].holds, properties[0].known)
    [gap] = [gap for gap in specification_gaps(rated, judge, [*properties, same, opposite]) if gap.against == "judge"]
    assert {gap.name, *gap.also} == {"property 0", "its twin", "the rest"}


def test_nothing_is_tested_with_few_conversations_or_without_a_judge() -> None:
    rated, judge, properties = planted(0, lower=1.2)
    few = rated.take(np.arange(12))
    cut = [Property(each.key, each.name, each.holds[:12], each.known[:12]) for each in properties]
    assert specification_gaps(few, judge[:12], cut) == []
    assert all(gap.against == "people" for gap in specification_gaps(rated, None, properties))
    assert specification_gaps(rated, np.full(len(rated), np.nan), properties) == specification_gaps(
        rated, None, properties
    )
    assert gap_of("judge", rated, None, properties[0]) is None


def project_with_gap(folder: Path, **settings: Any) -> Project:
    """A project where people rate conversations about refunds lower than their words suggest."""
    rng = np.random.default_rng(0)
    rows, labels = [], []
    for place in range(90):
        topic = ("refund", "setup", "delivery")[place % 3]
        rows.append({"id": f"c{place}", "metadata": {"topic": topic}, "messages": [
            {"role": "user", "content": f"About {topic} {place}?"},
            {"role": "assistant", "content": "word " * int(rng.integers(5, 60))},
        ]})  # fmt: skip
        spread = 2 if topic == "refund" else 0
        base = int(rng.integers(1, 6))
        labels += [
            (f"c{place}", "ann", base),
            (f"c{place}", "ben", int(np.clip(base + rng.choice([-1, 1]) * spread, 1, 5))),
        ]
    chats, ratings = folder / "chats.jsonl", folder / "labels.csv"
    chats.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    with ratings.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["conversation", "annotator", "question", "value"])
        writer.writerows((name, person, "good", value) for name, person, value in labels)
    rubric = folder / "rubric.yaml"
    rubric.write_text("name: mine\nmain: good\nquestions:\n- {id: good, text: 'Good?', scale: ordinal, options: "
                      "{1: bad, 2: poor, 3: fair, 4: good, 5: great}}\n", encoding="utf-8")  # fmt: skip
    text = {"store": f"sqlite:///{folder}/accord.db", "metrics": ["words"], "rubric": "rubric.yaml", **settings}
    (folder / "accord.yaml").write_text(yaml.safe_dump(text), encoding="utf-8")
    project = Project(config_from(text, folder=folder), rubric=load_rubric(str(rubric)))
    project.import_([chats, ratings])
    return project


def test_a_project_names_its_gap_and_follows_a_changed_wording(tmp_path: Path) -> None:
    with project_with_gap(tmp_path) as project:
        found = project.gaps()
        assert found.gaps[0].key == "topic=refund" and found.judge == "" and found.tested >= 4
        assert found.gaps[0].conversations == 30 and not found.changes
        assert project.gaps().changes == []  # the wording is the same
        earlier = {"question": "good", "gaps": [{"against": "people", "key": "topic=setup"}], "rubric": "other"}
        project.store.finish_run(project.store.start_run("gaps", {}), "done", earlier)
        assert project.gaps().changes == []  # other tests found it
        rubric = project.rubric
        questions = tuple(each.model_copy(update={"text": "Good? A refund counts."}) for each in rubric.questions)
        changed = rubric.model_copy(update={"questions": questions})
    with Project(config_from({"store": f"sqlite:///{tmp_path}/accord.db", "metrics": ["words"]}, folder=tmp_path),
                 rubric=changed) as project:  # fmt: skip
        [line, *_] = project.gaps().changes
        assert line.startswith("since the wording was changed: topic refund: +") and line.endswith("now")


def test_the_command_prints_gaps_and_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project_with_gap(tmp_path).close()
    monkeypatch.chdir(tmp_path)
    runner = CliRunner()
    done = runner.invoke(app, ["gaps"])
    assert done.exit_code == 0 and "People differ among themselves where" in done.output
    assert "topic refund: ratings of one conversation are" in done.output and "such as c" in done.output
    content = json.loads(runner.invoke(app, ["gaps", "--json"]).stdout)
    assert content["gaps"][0]["examples"][0]["conversation"].startswith("c")


def test_gaps_need_ratings(tmp_path: Path) -> None:
    config = config_from({"store": f"sqlite:///{tmp_path}/accord.db"}, folder=tmp_path)
    with Project(config) as project, pytest.raises(BadInput, match="no "):
        project.gaps()


def test_the_rubric_page_searches_gaps_and_takes_a_clause(tmp_path: Path) -> None:
    project_with_gap(tmp_path).close()
    project = Project(load_config(tmp_path / "accord.yaml"))
    with project, open_workbench(project, ["ann"], ["lea"], files=ProjectFiles(tmp_path / "accord.yaml")) as bench:
        lea, ann = bench.browser("lea"), bench.browser("ann")
        page = lea.get("/rubric")
        assert "Where people read" in page and "differently</h2>" in page and "/conversation/" not in page
        assert ann.post("/rubric/gaps", form=token(ann.get("/")))[0] == 403
        assert lea.post("/rubric/gaps", form="wrong")[0] in (400, 403)
        page = shown_after(lea, "/rubric/gaps", form=token(page))
        assert "The search is done." in page and "topic refund: ratings of one conversation are" in page
        assert len(re.findall(r'href="/conversation/c\d+"', page)) >= 10
        fields = {
            name: html.unescape(re.search(rf'name="{name}" value="([^"]*)"', page)[1]) for name in ("seen", "shape")
        }
        sent = {"form": token(page), **fields, "clause.0": "A <refund> counts as 5."}
        preview = html.unescape(shown_after(lea, "/rubric", do="preview", **sent))
        assert "Good? A <refund> counts as 5." in preview
        shown = re.search(r'name="shown" value="([^"]+)"', preview)
        assert shown is not None and lea.post("/rubric", do="save", shown=shown[1], **sent)[0] == 303
        assert load_rubric(str(tmp_path / "rubric-2.yaml")).main_question.text == "Good? A <refund> counts as 5."
        page = shown_after(lea, "/rubric/gaps", form=token(lea.get("/rubric")))
        assert "since the wording was changed: topic refund" in page and "<refund>" not in page
