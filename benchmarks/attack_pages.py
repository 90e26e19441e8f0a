"""Hostile texts where people read them: on pages, in tables for spreadsheets, on the terminal."""

from __future__ import annotations

import csv
import http.client
import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from attack_service import listening
from attacking import RUBRIC, Case, Workshop, accord, control, judge_at, messages, settings
from misbehaving_endpoint import answer_any

from accord.testing import ChatServer, Wire, completion

MARKUP = '"\'><pwned onpwn=1 x=\'</script></style></textarea></title><pwned onpwn=1>--><a href="javascript:pwn">x</a>'
ESCAPE = "\x1b[2J\x1b]0;pwned\x07\x9b31m\rgone\x08\u202eright"
FORMULAS = ('=HYPERLINK("http://evil")', "+1+cmd|' /C calc'!A0", "-2+3+A1", "@SUM(1)", "\t=1+1", "\r=1+1")
ODD = (MARKUP, ESCAPE, *FORMULAS)


class _Live(HTMLParser):
    """Collects what only hostile input can have put into a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.fields: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element with its attributes."""
        given = dict(attrs)
        runs = any("pwn" in name or str(value).strip().startswith("javascript:") for name, value in attrs)
        if runs or tag == "pwned":
            self.found.append(f"<{tag} {' '.join(given)}>"[:80])
        if tag == "input" and given.get("type") == "hidden":
            self.fields[str(given.get("name"))] = str(given.get("value"))

    handle_startendtag = handle_starttag


def live(page: str) -> str:
    """Return active markup that came from a page's data, or ''."""
    parser = _Live()
    parser.feed(page)
    parser.close()
    return f"live markup: {parser.found[0]}" if parser.found else ""


def _hostile(shop: Workshop, url: str) -> Path:
    """A project in which every name and text is hostile, with all evidence gathered and an evaluator fitted."""
    finder = {"finder": {"model": "m1", "base_url": url, "attempts": 1}}
    folder = shop.bare(models={**judge_at(url), **finder}, sources={"issues": {"by": "chat"}})
    rubric = RUBRIC.replace('"How good is it?"', json.dumps(MARKUP)).replace(
        '"Is it solved?"', json.dumps(f"Is it {ODD[2]}?")
    )
    (folder / "rubric.yaml").write_text(rubric)
    rows = [{"id": f"{ODD[i % len(ODD)]} {i}".strip(), "metadata": {"system": ODD[i % 2], "topic": ODD[i % len(ODD)]},
             "messages": messages(f"Is it {i}? {ODD[i % len(ODD)]}", f"Yes. {MARKUP} {'Fine. ' * (i % 5)}"),
             "documents": [{"title": MARKUP, "text": ESCAPE}]} for i in range(24)]  # fmt: skip
    (folder / "chats.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with (folder / "labels.csv").open("w", newline="") as stream:
        table = csv.writer(stream)
        table.writerow(["conversation", "annotator", "quality", "comment"])
        for place, row in enumerate(rows):
            for who in range(2):
                table.writerow([row["id"], ODD[who + place % 2], 1 + (place % 5 + who) % 4, MARKUP])
    return folder


def _finds(request: Mapping[str, Any]) -> Wire:
    """A verdict whose every text is hostile; the right answer on other wires."""
    if not str(request["_path"]).endswith("/chat/completions"):
        return answer_any(request)
    issue = {"type": "Coherence", "comment": MARKUP + ESCAPE, "quote": "Yes."}
    strange = {"type": MARKUP, "comment": ESCAPE, "quote": MARKUP}
    return completion(json.dumps({"issues": [issue, strange], "comment": MARKUP, "score": 2}))


COMMANDS = (
    "import chats.jsonl labels.csv", "judge --all", "fit m", "compare --only m", "estimate", "label next",
    "score chats.jsonl --out scores.csv", "export annotations.csv", "gate --min-mean 1 --include-training",
    "report --out report.html", "issues --out issues.html", "watch", "store check",
)  # fmt: skip


def pages(shop: Workshop) -> Iterator[Case]:
    """Pages, tables and lines in which hostile texts are shown: one project, every command that shows something."""
    with ChatServer(_finds) as server:
        folder = _hostile(shop, server.url)
        for command in COMMANDS:
            yield f"terminal: {command}", partial(_shows, folder, command)
        for name in ("report.html", "issues.html"):
            yield name, partial(_page, folder / name)
        for name in ("scores.csv", "annotations.csv"):
            yield name, partial(_formulas, folder / name)
        yield "pages of a study", lambda: _study(folder)


def _page(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    return live(text) or control(text)


def _shows(folder: Path, command: str) -> str:
    return accord(folder, *command.split()).fell((0, 3, 5), megabytes=600)


def _formulas(path: Path) -> str:
    with path.open(newline="", encoding="utf-8") as stream:
        cells = [cell for row in csv.reader(stream) for cell in row]
    numbers = r"[-+]?[0-9.]+(e[-+]?[0-9]+)?"
    odd = [cell for cell in cells if cell[:1] in set("=+-@\t\r") and not re.fullmatch(numbers, cell)]
    return f"a formula in a cell: {odd[0][:60]!r}" if odd else ""


def _study(folder: Path) -> str:
    with listening(folder, "validate", "--sample", "6", "--annotators-per-item", "1") as served:
        browser = http.client.HTTPConnection("127.0.0.1", served.port, timeout=60)
        cookies = dict[str, str]()

        def ask(path: str) -> tuple[int, str, str]:
            browser.request("GET", path, headers={"Cookie": "; ".join(f"{name}={v}" for name, v in cookies.items())})
            answer = browser.getresponse()
            for cookie in answer.headers.get_all("Set-Cookie") or ():
                name, _, value = cookie.partition(";")[0].partition("=")
                cookies[name] = value
            return answer.status, answer.headers.get("Location", ""), answer.read().decode()

        link = re.search(r"/in/[\w-]{43}", served.said())
        ask("/" if link is None else link[0])
        shown = [ask(path)[2] for path in ("/", "/rate/detection")]
        status, at, page = ask("/rate/detection/next")
        while status in (302, 303, 307):
            status, at, page = ask(at)
        shown.append(page)
        if status != 200 or "Fine." not in page and "Yes." not in page:
            return f"no page of a turn was shown (HTTP {status})"
        found = next(
            (each for each in map(live, [*shown, ask(f"/rate/{MARKUP}"[:200].replace(" ", "%20"))[2]]) if each), ""
        )
        return found or served.end()


LONG = "k" * 100_000


def terminal(shop: Workshop) -> Iterator[Case]:
    """Errors about hostile or endless texts: one line that a terminal can show."""
    rows: dict[str, Callable[[str], str]] = {
        "an id": lambda odd: json.dumps({"id": odd, "messages": 7}),
        "a role": lambda odd: json.dumps({"messages": [{"role": [odd], "content": odd}]}),
        "keys": lambda odd: json.dumps({odd: odd}),
    }
    for name, make in rows.items():
        for kind, odd in (("escapes", ESCAPE), ("100,000 characters", LONG)):
            yield f"{name} of {kind} in a row", partial(_row, shop, make(odd))
    for kind, odd in (("escapes", ESCAPE), ("100,000 characters", LONG[:90_000])):
        yield f"a key of {kind} in accord.yaml", partial(_configured, shop, json.dumps({odd: 1}))
        yield f"a store of {kind}", partial(_configured, shop, settings(store=odd), (0, 1))
        yield f"a name of {kind} on the command line", partial(_named, shop, odd)
        yield f"a label of {kind}", partial(_label, shop, odd)
        yield f"a file's name of {kind}", partial(_filed, shop, odd)
        yield f"a question of {kind}", partial(_question, shop, odd)


def _row(shop: Workshop, text: str) -> str:
    folder = shop.bare()
    good = json.dumps({"id": "good", "messages": messages("hello", "hi")})
    (folder / "chats.jsonl").write_text(f"{good}\n{text}\n")
    skipped = accord(folder, "import", "chats.jsonl", "--skip-bad-rows")
    return accord(folder, "import", "chats.jsonl").fell() or skipped.fell((0, 1))


def _configured(shop: Workshop, text: str, codes: tuple[int, ...] = (1,)) -> str:
    folder = shop.bare()
    (folder / "accord.yaml").write_text(text)
    return accord(folder, "export", "out.csv").fell(codes)


def _named(shop: Workshop, odd: str) -> str:
    return accord(shop.learned(), "fit", odd.replace("\0", "")).fell((1, 2))


def _label(shop: Workshop, odd: str) -> str:
    folder = shop.learned()
    with (folder / "odd.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["conversation", "annotator", "quality"], ["c1", "ann", odd], [odd, odd, "2"]])
    return accord(folder, "import", "odd.csv").fell((0, 1))


def _filed(shop: Workshop, odd: str) -> str:
    return accord(shop.bare(), "import", f"{odd[:3000]}.jsonl".replace("/", "")).fell((1, 2))


def _question(shop: Workshop, odd: str) -> str:
    folder = shop.bare()
    question = {"id": odd, "text": "?", odd: 1}
    (folder / "rubric.yaml").write_text(json.dumps({"name": odd, "main": odd, "questions": [question]}))
    return accord(folder, "judge", "--plan").fell()
