"""A database that fails while a server runs: each page says so with status 503, and nothing is acknowledged."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from served_workbench import Browser, open_workbench, submitted

from accord import Project
from accord.project import Config
from accord.store import Store, StoreError
from accord.values import Conversation, Turn

CHATS = [Conversation(f"c{place}", (Turn("user", "Hi?"), Turn("assistant", "Hello."))) for place in range(3)]


def _pages(browser: Browser) -> list[str]:
    """Return the addresses that the pages of a lead link to, and their JSON."""
    found = {"/"}
    for path in ("/", "/lead/look", "/board", "/explore"):
        found |= set(re.findall(r'href="(/[^"#?]*)', browser.get(path)))
    pages = sorted(path for path in found if not path.startswith(("/static", "/in", "/out")))
    assert len(pages) > 8
    return pages + ["/board.json", "/explore.json", "/rate/look"]


def _drop(url: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")


def _file(url: str) -> Path:
    return Path(url.removeprefix("sqlite:///"))


def _replace(url: str) -> None:
    copy = Path(f"{_file(url)}.new")
    copy.write_bytes(_file(url).read_bytes())
    copy.replace(_file(url))


LOSSES: dict[str, tuple[str, Callable[[str], Any], str]] = {
    "PostgreSQL without its tables": ("postgresql", _drop, "does not exist"),
    "moved": ("sqlite", lambda url: _file(url).rename(f"{_file(url)}.away"), "was moved, replaced or deleted"),
    "replaced": ("sqlite", _replace, "was moved, replaced or deleted"),
    "deleted": ("sqlite", lambda url: _file(url).unlink(), "was moved, replaced or deleted"),
}


@pytest.mark.attack
@pytest.mark.posix
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)
def test_every_page_says_that_the_store_is_lost(
    loss: tuple[str, Callable[[str], Any], str], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    kind, lose, says = loss
    url = f"sqlite:///{tmp_path}/store.db" if kind == "sqlite" else request.getfixturevalue("postgres")
    if kind == "postgresql":
        _drop(url)
    study = {"title": "First look", "annotators_per_item": 2}
    with Project(Config.model_validate({"store": url, "studies": {"look": study}})) as opened:
        opened.store.add_conversations(CHATS)
        with open_workbench(opened, leads=["ann"]) as bench:
            browser, session = bench.browser("ann"), bench.session()
            pages = _pages(browser)
            item = session.take("ann")
            assert item is not None
            lose(url)
            answers = {path: browser.ask("GET", path) for path in pages}
            assert {path: status for path, (status, *_) in answers.items() if status != 503} == {}
            assert all(says in page for _, page, _ in answers.values())
            with pytest.raises(StoreError, match=says):
                session.answer("ann", submitted(item.id))


@pytest.mark.attack
@pytest.mark.posix
def test_a_file_that_is_put_back_is_the_store_again(tmp_path: Path) -> None:
    file, away = tmp_path / "store.db", tmp_path / "away.db"
    with closing(Store(f"sqlite:///{file}")) as store:
        store.add_conversations(CHATS)
        file.rename(away)
        for use in (store.count_conversations, lambda: store.add_conversations(CHATS)):
            with pytest.raises(StoreError, match="was moved, replaced or deleted"):
                use()
        assert not file.exists()
        away.rename(file)
        assert store.count_conversations() == 3
