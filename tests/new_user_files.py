"""Files of new users in eight kinds, with the reading that is expected."""

from __future__ import annotations

import csv
import io
import json
import random
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COUNT = 48
Cells = list[list[Any]]


@dataclass(frozen=True)
class Kind:
    """Files of one kind and their expected reading.

    Attributes:
        name: Short name.
        write: Writes the files into a folder.
        chats: Files of conversations.
        labels: File of ratings.
        people: Ratings by person.
        judges: Answers by judge.
        replies: Replies of the assistant in each conversation.
        scored: Rows of the scores of all conversations.
        systems: Versions of the assistant.
        in_python: True if the files are read as data frames in Python.
    """

    name: str
    write: Callable[[Path], None]
    chats: tuple[str, ...]
    labels: str
    people: Mapping[str, int]
    judges: Mapping[str, int] = field(default_factory=dict)
    replies: int = 1
    scored: int = COUNT
    systems: frozenset[str] = frozenset()
    in_python: bool = False


TOPICS = ("order", "refund", "invoice", "password", "delivery", "warranty", "booking", "contract")


def _asked(i: int) -> str:
    return f"Where is my {TOPICS[i % 8]} number {100 + i}?"


def _reply(i: int) -> str:
    topic = TOPICS[i % 8]
    return (
        "I do not know.",
        f"Please wait for your {topic}.",
        f"Your {topic} number {100 + i} arrives on Monday, and we sent you an email.",
        f"Your {topic} number {100 + i} arrives on Monday at nine. We sent you an email with all of the details, and "
        "you can call us at any time if it is late.",
    )[i % 4]


def _rating(i: int, who: int = 0) -> int:
    """Return a rating from 1 to 5 that follows the reply; annotators differ by up to a point."""
    rng = random.Random(f"{i} {who}")
    return max(1, min(5, i % 4 + 1 + (rng.random() < 0.4) + (0, 1, -1)[who]))


def _messages(i: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": _asked(i)}, {"role": "assistant", "content": _reply(i)}]


def _jsonl(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _csv(path: Path, rows: Cells, encoding: str = "utf-8", delimiter: str = ",") -> None:
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))


def _chats(folder: Path) -> None:
    _jsonl(folder / "chats.jsonl", [{"id": f"c{i:03d}", "messages": _messages(i)} for i in range(COUNT)])


def _one_annotator(folder: Path) -> None:
    _chats(folder)
    _csv(folder / "ratings.csv", [["id", "rating"], *([f"c{i:03d}", _rating(i)] for i in range(COUNT))])


def _excel(folder: Path) -> None:
    _chats(folder)
    rows = [
        [f"c{i:03d}", name, _rating(i, who), "fine"] for i in range(COUNT) for who, name in enumerate(("Nora", "Ben"))
    ]
    workbook(str(folder / "ratings.xlsx"), [["Conversation ID", "Rater", "Helpfulness", "Comment"], *rows])


def _completions(folder: Path) -> None:
    rows = []
    for i in range(COUNT):
        asked, reply = _messages(i)
        log = {"id": f"chatcmpl-{i:03d}", "model": ("gpt-4o-mini", "gpt-4o")[i % 2], "created": 1_700_000_000 + 60 * i}
        choice = {"index": 0, "message": reply, "finish_reason": "stop"}
        rows.append({**log, "messages": [asked], "choices": [choice], "usage": {"total_tokens": 50 + i}})
    _jsonl(folder / "log.jsonl", rows)
    ratings = [[f"chatcmpl-{i:03d}", "nora", _rating(i)] for i in range(COUNT)]
    _csv(folder / "ratings.csv", [["id", "annotator", "rating"], *ratings])


def _german(folder: Path) -> None:
    chats: Cells = [["Gespräch", "Rolle", "Text", "Version"]]
    for i in range(COUNT):
        chats += [[f"g{i}", "Kunde", f"Grüße! {_asked(i)}", "v1"], [f"g{i}", "Bot", f"{_reply(i)} Für 5 €.", "v1"]]
    _csv(folder / "gespräche.csv", chats, "cp1252", ";")
    ratings = [[f"g{i}", name, _rating(i, who)] for i in range(COUNT) for who, name in enumerate(("Jürgen", "Käthe"))]
    _csv(folder / "bewertungen.csv", [["Gespräch", "Prüfer", "Bewertung"], *ratings], "cp1252", ";")


def _texts(folder: Path) -> None:
    for i in range(COUNT):
        (folder / f"chat{i:03d}.txt").write_text(f"Customer: Grüße! {_asked(i)}\nAgent: {_reply(i)}\n", "utf-8")
    ratings = [[f"chat{i:03d}.txt", "Nora", _rating(i)] for i in range(COUNT)]
    _csv(folder / "ratings.csv", [["File", "Rated by", "Score"], *ratings], "utf-16", "\t")


def _turns(folder: Path) -> None:
    chats, ratings = [], []
    for i in range(COUNT // 2):
        messages = [*_messages(i), *_messages(i + 1)]
        for turn in (1, 3):
            messages[turn]["documents"] = [f"Handbook: a {TOPICS[i % 8]} arrives on Monday.", "Calls are free."]
            ratings += [[f"r{i}", turn, name, _rating(i + turn // 2, who)] for who, name in enumerate(("nora", "ben"))]
        chats.append({"id": f"r{i}", "messages": messages})
    _jsonl(folder / "rag.jsonl", chats)
    _csv(folder / "ratings.csv", [["conversation_id", "turn", "annotator", "faithful"], *ratings])


def _wide(folder: Path) -> None:
    rows = [
        [f"w{i}", _asked(i), _reply(i), _rating(i), _rating(i, 1) if i % 3 else "", _rating(i, 2)] for i in range(COUNT)
    ]
    _csv(folder / "all.csv", [["id", "prompt", "response", "nora", "ben", "gpt4_score"], *rows])


_NORA_AND_BEN = {"nora": COUNT, "ben": COUNT}
KINDS = (
    Kind("JSON lines and ratings of one annotator", _one_annotator, ("chats.jsonl",), "ratings.csv", {"unnamed": COUNT}),
    Kind("Excel ratings of two annotators", _excel, ("chats.jsonl",), "ratings.xlsx", {"Nora": COUNT, "Ben": COUNT}),
    Kind(
        "log of chat completions", _completions, ("log.jsonl",), "ratings.csv", {"nora": COUNT},
        systems=frozenset({"gpt-4o", "gpt-4o-mini"}),
    ),
    Kind(
        "German tables in Windows-1252", _german, ("gespräche.csv",), "bewertungen.csv",
        {"Jürgen": COUNT, "Käthe": COUNT}, systems=frozenset({"v1"}),
    ),
    Kind(
        "text files and ratings in UTF-16", _texts, tuple(f"chat{i:03d}.txt" for i in range(COUNT)), "ratings.csv",
        {"Nora": COUNT},
    ),
    Kind("ratings of turns with documents", _turns, ("rag.jsonl",), "ratings.csv", _NORA_AND_BEN, replies=2),
    Kind(
        "a table with a judge's column", _wide, ("all.csv",), "all.csv",
        {"nora": COUNT, "ben": COUNT - COUNT // 3}, {"gpt4": COUNT},
    ),
    Kind("data frames in Python", _one_annotator, ("chats.jsonl",), "ratings.csv", {"unnamed": COUNT}, in_python=True),
)  # fmt: skip
"""Files of 48 ratings per person; data frames have the files of the first kind."""


MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGES = "http://schemas.openxmlformats.org/package/2006"
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def workbook(name: str, *sheets: list[list[Any]]) -> str:
    """Write a workbook with inline texts and numbers."""

    def cell(value: Any) -> str:
        text = f'<c t="inlineStr"><is><t>{value}</t></is></c>'
        return text if isinstance(value, str) else f"<c><v>{value}</v></c>"

    def each_sheet(template: str) -> str:
        return "".join(template.format(n=n, r=RELATIONS, k=KIND) for n in range(1, len(sheets) + 1))

    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGES}/content-types"><Default Extension="rels" ContentType="'
        'application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" '
        f'ContentType="{KIND}.sheet.main+xml"/>'
        + each_sheet('<Override PartName="/xl/worksheets/s{n}.xml" ContentType="{k}.worksheet+xml"/>') + "</Types>",
        "_rels/.rels": f'<Relationships xmlns="{PACKAGES}/relationships"><Relationship Id="r1" '
        f'Type="{RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>'
        + each_sheet('<sheet name="S{n}" sheetId="{n}" r:id="r{n}"/>') + "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGES}/relationships">'
        + each_sheet('<Relationship Id="r{n}" Type="{r}/worksheet" Target="worksheets/s{n}.xml"/>') + "</Relationships>",
    }  # fmt: skip
    for number, rows in enumerate(sheets, 1):
        lines = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
        parts[f"xl/worksheets/s{number}.xml"] = f'<worksheet xmlns="{MAIN}"><sheetData>{lines}</sheetData></worksheet>'
    with zipfile.ZipFile(name, "w") as archive:
        for place, text in parts.items():
            archive.writestr(place, text)
    return name
