"""Synthetic conversations: 20 by a small model in this process, the cost of a kill, and the two-sample test.

Rows: `embedded-20` (DS4 by the embedded model, about 20 topics; `unlike_auc` is held against the conversations of the
sample, which were written for it), `embedded-whole` (DS1: a whole dialogue in one prompt), and `killed` (all five ways
over a loopback server, killed with SIGKILL and run again).
"""

from __future__ import annotations

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from harness import Row, chosen, finish, options, rows_of_part

from accord import Project
from accord.edges import BadInput
from accord.models import ModelSettings
from accord.project import Config
from accord.sample import sources
from accord.store import Store
from accord.synth import SynthSettings
from accord.synth.utterance_parser import END
from accord.testing import (
    ChatServer,
    completion,
)
from accord.testing.server import Wire

PARTS = ("embedded", "killed")
MODEL = "embedded:smollm2-135m"
TOPICS = (
    "a parcel that has not arrived", "change the delivery address", "return shoes that do not fit",
    "a refund is missing",
    "cancel a subscription", "an invoice for last year", "reset a password", "the app closes at once",
    "a charger that gets hot", "a coupon that does not work", "pay by bank transfer", "close an account",
    "two accounts into one", "a missing part in the box", "a lamp that flickers", "clean a coffee machine",
    "how long a guarantee lasts", "send a gift", "opening hours on Sunday", "speak to a person",
)  # fmt: skip
DOCUMENTS = {
    "delivery": "Parcels take two to four days. The address can be changed until the parcel leaves the warehouse.",
    "returns": "Anything can be returned within 30 days. The refund comes within five days after the parcel arrived.",
    "account": "A password is reset by the link on the sign-in page. An account is closed under Settings, Privacy.",
    "payment": "We take cards and bank transfers. Invoices of all years are under Orders. One coupon for each order.",
    "repair": "The guarantee lasts two years. Clean a coffee machine every month. A part that gets hot is replaced.",
}
KILLED_AT = 60
_ABOUT = re.compile("“(.*?)”")


def embedded(quick: bool) -> list[Row]:
    """A small model plays both parts."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        docs = Path(folder) / "docs"
        docs.mkdir()
        for name, text in DOCUMENTS.items():
            (docs / f"{name}.md").write_text(f"# {name}\n{text}\n", encoding="utf-8")
        common: dict[str, Any] = {
            "documents": str(docs), "max_documents": 2, "max_turns": 2, "max_tokens": 40,
            "dialogue_tokens": 160, "temperature": 0.7,
        }  # fmt: skip
        for name, how, count in (
            ("embedded-20", "DS4", 3 if quick else 20),
            ("embedded-whole", "DS1", 3 if quick else 10),
        ):
            config = Config(
                store=f"sqlite:///{folder}/{how}.db",
                models={"assistant": ModelSettings(model=MODEL, concurrency=2)},
                synth=SynthSettings.model_validate({**common, "methods": [how], "topics": list(TOPICS[:count])}),
            )
            with Project(config) as project:
                project.import_(sources())
                begun = time.perf_counter()
                done = project.synth()
                seconds = time.perf_counter() - begun
                row: Row = {
                    "what": name, "value": done.made, "planned": done.planned, "finished": done.made,
                    "refused": sum(done.lost.values()), "reasons": dict(done.lost), "duplicates": done.duplicates,
                    "messages": done.turns, "seconds": seconds,
                }  # fmt: skip
                rows.append({**row, **_unlike(project)})
    return rows


def _unlike(project: Project) -> Row:
    try:
        found = project.check_synth()
    except BadInput as error:
        return {"unlike_auc": None, "unlike_reason": str(error)}
    first = [f"{each.metric} {each.effect:+.2f}" for each in found.features[:3]]
    return {
        "unlike_auc": found.auc, "unlike_auc_low": found.low, "unlike_auc_high": found.high, "unlike_p": found.p,
        "gives_away": first,
    }  # fmt: skip


# --- killed ---------------------------------------------------------------------------------------------------------


def killed(quick: bool) -> list[Row]:
    """Kill a run during a request and repeat it: requests paid twice, and lost conversations."""
    count = threading.Semaphore(0)
    hold = threading.Event()
    at = 20 if quick else KILLED_AT
    seen: list[str] = []

    def respond(request: Mapping[str, Any]) -> Wire:
        seen.append(json.dumps(request["messages"]))
        held = len(seen) > at
        count.release()
        if held:
            hold.wait()
        return completion(_said(request["messages"][0]["content"]))

    with tempfile.TemporaryDirectory() as folder, ChatServer(respond) as server:
        where = Path(folder)
        (where / "docs").mkdir()
        for name, text in DOCUMENTS.items():
            (where / "docs" / f"{name}.md").write_text(f"# {name}\n{text}\n", encoding="utf-8")
        topics = [
            {"text": text, "documents": [f"{name}.md"]} for text, name in zip(TOPICS, 4 * list(DOCUMENTS), strict=True)
        ]
        (where / "topics.jsonl").write_text("\n".join(map(json.dumps, topics[: 4 if quick else 20])), encoding="utf-8")
        (where / "accord.yaml").write_text(
            f"models: {{user: {{model: scripted, base_url: '{server.url}', concurrency: 1}}}}\n"
            "synth: {documents: docs, topics: topics.jsonl, concurrency: 4}\n",
            encoding="utf-8",
        )
        command = [sys.executable, "-m", "accord", "synth", "--json"]
        environment = {**os.environ, "OPENAI_API_KEY": "none"}
        first = subprocess.Popen(
            command, cwd=where, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(at + 1):
            count.acquire()
        while _replies(where) < at:  # paid answers are on disk; one more request is in progress
            time.sleep(0.01)
        first.send_signal(signal.SIGKILL)
        first.wait()
        hold.set()
        before = _kept(where)
        again = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=True)
        done = json.loads(again.stdout)
        after = _kept(where)
    twice = len(set(seen[:at]) & set(seen[at + 1 :]))
    return [
        {
            "what": "killed", "value": twice, "paid_twice": twice, "lost": len(before - after), "before": len(before),
            "finished": len(after), "planned": done["planned"], "requests": len(seen),
        }
    ]  # fmt: skip


def _replies(folder: Path) -> int:
    with closing(sqlite3.connect(folder / "accord.db")) as database:
        return int(database.execute("SELECT count(*) FROM cache WHERE kind = 'reply'").fetchone()[0])


def _kept(folder: Path) -> set[str]:
    with closing(Store(f"sqlite:///{folder}/accord.db")) as store:
        return {each.id for each in store.conversations(synthetic="only")}


def _said(text: str) -> str:
    """Return a scripted reply; every conversation is different."""
    found = _ABOUT.search(text)
    about = found[1] if found else " ".join(re.findall(r"ask about (.*?)\.", text)[-1:])
    if "first question" in text:
        return f"User: I ask about {about}."
    if "Write a conversation" in text:
        return f"User: I ask about {about}.\nAssistant: Of {about} I know {len(text)} letters.\nUser: Thanks."
    if "Only generate the query" in text:
        return about
    if "assistant's next one" in text:
        return f"Of {about} I know this, {len(text)} letters of it [1]."
    return END if text.count("Assistant:") > 3 else f"User: And what else, {text.count('Assistant:')}?"


def main() -> None:
    """Measure, print, write."""
    parser = options("synth", "Synthetic conversations: made, killed, told from others.", PARTS)
    asked = parser.parse_args()
    parts = {"embedded": embedded, "killed": killed}
    names = chosen(parser, asked.only, PARTS)
    rows = [row for name in names for row in rows_of_part(name, partial(parts[name], asked.quick))]
    columns = (
        "what",
        "value",
        "planned",
        "finished",
        "refused",
        "duplicates",
        "seconds",
        "unlike_auc",
        "paid_twice",
        "lost",
    )
    finish("synth", rows, columns, asked.json)


if __name__ == "__main__":
    main()
