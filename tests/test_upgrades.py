"""Projects of earlier versions in this one: stores, evaluators, scores, settings, copies.

`tools/write_upgrade_fixtures.py` writes the projects of `tests/upgrades`, each with the commit that made it.
"""

from __future__ import annotations

import csv
import json
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from commands import accord, accord_json, refused
from sqlalchemy import Engine, event, text

from accord import Store
from accord.store import backup, check_store, restore
from accord.store.schema import SCHEMA_VERSION
from accord.values import Signature

VERSIONS = sorted(path.parent.name for path in (Path(__file__).parent / "upgrades").glob("*/project.tar.xz"))
ROUNDING = 1e-6
"""Largest difference of scores; builds of linear algebra differ in the last digits, and a change of a method is larger."""


@pytest.fixture(params=VERSIONS)
def project(request: pytest.FixtureRequest, working_folder: Path) -> Path:
    """Working folder with the project of an earlier version."""
    with tarfile.open(Path(__file__).parent / "upgrades" / request.param / "project.tar.xz") as tar:
        tar.extractall(working_folder, filter="data")
    return working_folder


def counts(file: str) -> dict[str, int]:
    """Rows by table, read without Accord."""
    with closing(sqlite3.connect(file)) as store:
        names = [name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: store.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in names}


def rows(file: str) -> list[dict[str, str]]:
    with Path(file).open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def scores(file: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(file).read_text(encoding="utf-8").splitlines()]


def changes(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield the places where a new value lacks something of the old one or differs by more than rounding."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, value in old.items():
            yield from changes(value, new.get(name, "missing"), f"{place}.{name}")
    elif place == ".signature":
        if Signature.without_version(old) != Signature.without_version(new):
            yield f"{place}: {old!r}, now {new!r}"
    elif isinstance(old, int | float) and isinstance(new, int | float):
        if abs(old - new) > ROUNDING:
            yield f"{place}: {old}, now {new}"
    elif old != new:
        yield f"{place}: {old!r}, now {new!r}"


def test_rows_of_the_store_and_the_mart_are_kept(project: Path) -> None:
    expected = json.loads(Path("expected.json").read_text(encoding="utf-8"))
    accord("export", "now.csv")
    assert expected["tables"].items() <= counts("accord.db").items()
    now = rows("now.csv")
    assert [{name: new[name] for name in old} for old, new in zip(rows("annotations.csv"), now, strict=True)] == rows(
        "annotations.csv"
    )
    found = check_store("accord.db", Path("accord.db.scores"))
    assert found.damage == [] and found.version == SCHEMA_VERSION
    of_mart = pl.read_parquet("accord.db.scores/*.parquet")
    tables = sum(len(rows("table.csv")) for _ in Path().glob("table.*"))
    assert len(of_mart) == tables + sum(len(scores(f"scores-{name}.jsonl")) for name in expected["evaluators"])


def test_evaluators_give_the_same_scores(project: Path) -> None:
    for name in json.loads(Path("expected.json").read_text(encoding="utf-8"))["evaluators"]:
        accord("score", "chats.jsonl", "--evaluator", f"evaluators/{name}", "--out", "now.jsonl", "--force")
        old, now = scores(f"scores-{name}.jsonl"), scores("now.jsonl")
        assert [list(changes(*pair)) for pair in zip(old, now, strict=True)] == [[] for _ in old], name


def test_score_tables_and_the_card_are_read(project: Path) -> None:
    if not Path("agreement-card.json").is_file():
        pytest.skip("the fixture was written without a card")
    count = len(scores("scores-default.jsonl"))
    for suffix in ("csv", "parquet"):
        sent = accord("push", "--to", "label-studio", f"table.{suffix}", "--out", "tasks.json", "--force")
        assert f"{count} predictions of {count} rows" in sent
    conditions = accord("gate", "--card", "agreement-card.json", "--allow-unproven")
    assert "evaluator of the card: passed: unchanged" in conditions


def test_folder_of_parts_is_exported_imported_and_continued(project: Path) -> None:
    if not Path("parts").is_dir():
        pytest.skip("the fixture was written without a folder of parts")
    accord("export", "now.jsonl", "--scores", "parts")
    old, now = scores("scores-default.jsonl"), scores("now.jsonl")
    assert [list(changes(*pair)) for pair in zip(old, now, strict=True)] == [[] for _ in old]
    assert accord_json("import", "parts")["scores"] == {"parts": len(old)}
    assert accord_json("import", "parts")["scores"] == {"parts": 0}
    again = accord("score", "chats.jsonl", "--evaluator", "evaluators/default", "--out", "parts/", "--workers", "1")
    assert "1 part made" in again, "the fixture was made at another place, so its piece has another key"
    assert len(json.loads(Path("parts/manifest.json").read_text(encoding="utf-8"))["parts"]) == 2
    assert (
        accord_json("store", "erase", "--conversation", old[0]["conversation"], "--yes", "--keep-scores")["scores"] > 0
    )


def test_settings_files_of_scores_and_labels_are_read(project: Path) -> None:
    known = json.loads((Path(__file__).parents[1] / "docs" / "accord.schema.json").read_text(encoding="utf-8"))

    def settings(schema: Any) -> dict[str, Any]:
        """The keys of an object, also of one that may be given as a text instead."""
        return {
            name: inner
            for each in (schema, *schema.get("anyOf", ()))
            for name, inner in each.get("properties", {}).items()
        }

    def lost(old: Any, new: Any, place: str) -> Iterator[str]:
        for was, now in ((settings(old), settings(new)), (old.get("$defs", {}), known["$defs"])):
            for name, inner in was.items():
                if name not in now:
                    yield f"{place}{name}"
                else:
                    yield from lost(inner, now[name], f"{place}{name}.")

    old = json.loads(Path("accord.schema.json").read_text(encoding="utf-8").replace("BudgetConfig", "Caps"))
    assert list(lost(old, known, "")) == []
    again = accord_json("import", "chats.jsonl", "ratings.csv")
    assert again["conversations"]["new"] == again["labels"]["new"] == 0
    count = again["conversations"]["known"]
    for file in sorted(Path().glob("scores-*.jsonl")):
        assert f"{count} predictions of {count} rows" in accord(
            "push", "--to", "label-studio", str(file), "--out", "tasks.json", "--force"
        )


def test_comparison_of_an_earlier_project(project: Path) -> None:
    compared = accord_json("compare")
    assert {"default", "svr", "constant"} <= {row["evaluator"] for row in compared["rows"]}
    evaluator = yaml.safe_load(Path("accord.yaml").read_text(encoding="utf-8"))["evaluator"]
    if evaluator == "calibration":  # its name until 0.1
        assert "It is now called 'default'" in refused("fit")


def test_upgrade_is_done_whole_or_not_at_all(project: Path) -> None:
    before, old = counts("accord.db"), Path("accord.db").read_bytes()
    with closing(sqlite3.connect("accord.db")) as store:
        [(version,)] = store.execute("SELECT version FROM schema_version")
    if version == SCHEMA_VERSION:
        pytest.skip("the schema has not changed since")

    def fail(*given: Any) -> None:
        if given[2].startswith("UPDATE schema_version"):
            raise OSError("the power has failed")

    event.listen(Engine, "before_cursor_execute", fail)
    try:
        with pytest.raises(OSError, match="power"):
            Store("accord.db")
    finally:
        event.remove(Engine, "before_cursor_execute", fail)
    assert counts("accord.db") == before
    Path("copy.db").write_bytes(old)
    for file in ("accord.db", "copy.db"):
        with closing(Store(file)) as opened:
            assert opened.count_conversations() == before["conversations"]


def test_store_of_a_later_version_asks_for_an_upgrade(project: Path) -> None:
    with closing(sqlite3.connect("accord.db")) as store, store:
        store.execute("UPDATE schema_version SET version = ?", (SCHEMA_VERSION + 1,))
    assert "A later Accord wrote it; upgrade Accord" in refused("export", "now.csv")
    assert "upgrade Accord" in accord("store", "check", code=1)


def test_copy_is_restored_into_either_database(project: Path, database: str) -> None:
    expected = counts("accord.db")
    restored = restore(database, Path("accord.db"))
    assert {name: restored[name] for name in ("conversations", "annotations", "users")} == {
        name: expected[name] for name in ("conversations", "annotations", "users")
    }
    assert counts("accord.db") == expected, "the copy stays as it is"


def test_store_on_postgresql_is_upgraded(project: Path, postgres: str) -> None:
    if not Path("store.sql").is_file():
        pytest.skip("the fixture was written without PostgreSQL")
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
        connection.execute(Path("store.sql").read_bytes())
    expected = counts("accord.db")
    with closing(Store(postgres)) as store, store._engine.connect() as rows:
        found = {name: rows.execute(text(f"SELECT count(*) FROM {name}")).scalar() for name in expected}
    assert found == {**expected, "sessions": 0}, "sessions are not copied"
    assert check_store(postgres).damage == []
    backup(postgres, Path("now.db"))
    assert counts("now.db")["annotations"] == expected["annotations"]
