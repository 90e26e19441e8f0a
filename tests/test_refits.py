"""Fitting again: what moved, scores of the board by the new fit, cards that are made again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from commands import invoke, printed, refused

from accord import Project
from accord.edges import BadInput
from accord.results import Ledger, document_text
from accord.scoring import score_again
from accord.testing import sample_project


def rate(project: Project, annotator: str) -> None:
    """Import the lowest rating of one more person for each conversation."""
    rows = "".join(f"{each.id},{annotator},1\n" for each in project.store.conversations())
    file = project.config.folder / f"{annotator}.csv"
    file.write_text(f"conversation,annotator,Q0\n{rows}", encoding="utf-8")
    project.import_(file)


@pytest.fixture(scope="module")
def refitted() -> Iterator[tuple[Project, Any]]:
    """A project that was fitted, scored, carded, rated by one more person, and fitted again."""
    with sample_project(store="sqlite:///accord.db") as project:
        project.fit()
        folder = project.config.folder
        chats = [each.to_json() for each in project.store.conversations()][:3]
        stranger = {**chats[2], "id": "stranger"}
        (folder / "new.jsonl").write_text(json.dumps(stranger) + "\n", encoding="utf-8")
        project.score(folder / "new.jsonl")
        project.score([*chats[:2], {**chats[2], "id": "lost"}])
        project.card(folder / "agreement-card.json")
        rate(project, "one-more")
        yield project, project.fit()


def test_a_fit_states_what_moved(refitted: tuple[Project, Any]) -> None:
    project, fitted = refitted
    moved, ledger = fitted.moved, Ledger.from_json(fitted.moved["ledger"])
    assert ledger["error:in use"].n == ledger["error:candidate"].n == len(fitted.comparison.ratings)
    assert ledger["error_change"].over and ledger["score_change"].value < 0, "lower ratings, lower scores"
    assert moved["summary"].startswith("Typical error ") and moved["was"].startswith("Not yet")
    assert {row["part"] for row in moved["weights"]} == {"source metrics"} and moved["cards"] == ["agreement-card.json"]
    assert moved["scores"].startswith("The scores of 4 conversations on the board are by an earlier fit.")
    text = document_text(fitted.document())
    for said in ("What this fit moved", "change of the scores", "accord score --again", "accord card --out agreement"):
        assert said in text
    assert project.store.runs("fit")[-1]["results"]["moved"]["summary"] == moved["summary"]
    assert project.fit().moved["summary"] == "The evaluator is the same as before, so its scores stay comparable."


def test_the_board_is_scored_again_at_its_old_days(refitted: tuple[Project, Any]) -> None:
    project, _ = refitted
    before = scores(project)
    done, left = score_again(project, project.load())
    assert done.conversations == 3 and left.startswith("1 conversation of the board is neither in the store")
    after = scores(project)
    assert len(after) == len(before) + 3 and after["evaluator"].n_unique() == 2, "one table of scores"
    days = after.group_by("conversation").agg(pl.coalesce("time", "scored").dt.date().n_unique())
    assert set(days["time"]) == {1} and set(after["conversation"]) >= {"stranger", "lost"}
    new = after.filter(pl.col("run") == done.run)
    assert set(new["conversation"]) == set(before["conversation"]) - {"lost"} and new["time"].null_count() == 0


def scores(project: Project) -> pl.DataFrame:
    return project.mart.read(lambda rows: rows.filter(pl.col("is_main")).collect())[0]


def test_again_names_what_it_needs(working_folder: Path) -> None:
    with sample_project() as project:
        project.fit("constant")
        with pytest.raises(BadInput, match="the board has no scores by another"):
            score_again(project, project.load(project.folder("constant")))
    assert "leave out files" in refused("score", "chats.jsonl", "--again")
    assert "accord score --again" in invoke("score", "chats.jsonl", code=2).stderr


def test_a_card_that_is_made_again_prints_its_changes(
    refitted: tuple[Project, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(refitted[0].config.folder)
    said = printed("card")
    assert "changed since the card before" in said and "labels.count" in said and "agreement.Q0.error" in said
    assert "changed since" not in printed("card")
    changed = json.loads(printed("card", "--json"))["differences"]
    assert "labels.count" not in [row["field"] for row in changed]


def test_an_erasure_states_that_it_costs_a_fit_and_a_card_and_makes_both(
    refitted: tuple[Project, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, fitted = refitted
    monkeypatch.chdir(project.config.folder)
    printed("card")
    [first, *_] = project.store.conversations()
    erase = ["store", "erase", "--conversation", first.id]
    cost = "The evaluator in use, default, learned from 1 of these conversations: fit it again and make agreement-card"
    assert cost in printed(*erase, "--plan") and "--refit does both" in printed(*erase, "--plan")
    old = [project.load().digest(), json.loads(Path("agreement-card.json").read_text("utf-8"))["labels"]["count"]]
    said = printed(*erase, "--yes", "--refit")
    assert "fitted default again" in said and "made agreement-card.json again" in said and "learned from" not in said
    new = [project.load().digest(), json.loads(Path("agreement-card.json").read_text("utf-8"))["labels"]["count"]]
    assert new[0] != old[0] and new[1] < old[1], "the fit and the card are without the erased ratings"
    assert "erased since" not in printed("gate", "--require-refit", "--allow-unproven", "--card", "agreement-card.json")
