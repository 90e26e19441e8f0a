"""A project of the small sample with fitted evaluators, used through the command line and the server alone.

`new.jsonl` holds ten conversations without ratings, `replies.jsonl` the first exchanges of two of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import yaml
from misbehaving_endpoint import answer_any
from processes import run
from served_workbench import Browser, printed_link, token
from serving import TOKEN, serving
from small_sample import sources
from waiting import PATIENCE

from accord.sample import sources as whole_sample
from accord.testing import ChatServer

QUICK = ["--set", "folds=2", "--set", "draws=20"]


@dataclass
class SampleProject:
    """A project of the small sample with three evaluators: a plain one, one of every question, one with a gate."""

    folder: Path
    outputs: dict[str, Any] = field(default_factory=dict)

    def __call__(self, *arguments: str) -> str:
        """Run a command and return its stdout."""
        done = run(["-m", "accord", *arguments], cwd=self.folder, timeout=PATIENCE)
        assert done.returncode == 0, done.stderr.decode()
        return str(done.stdout.decode())

    def rows(self, name: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def scored(self, file: str, out: str, evaluator: str) -> list[dict[str, Any]]:
        """Score a file into a file or a folder of parts, and return its rows."""
        is_folder = out.endswith("/")
        workers = ["--workers", "1"] if is_folder else []
        self("score", file, "--out", out, "--evaluator", f"evaluators/{evaluator}", *workers)
        if not is_folder:
            return self.rows(out)
        rows = pl.read_parquet(self.folder / out / "*.parquet").to_dicts()
        texts = ("distribution", "attributions", "notes")
        return [{**row, **{name: json.loads(row[name] or "null") for name in texts}} for row in rows]

    @contextmanager
    def served(self, evaluator: str) -> Iterator[Browser]:
        """A running `accord serve`, with a browser that is signed in."""
        named = ["--set", f"evaluator={evaluator}", "--evaluator", f"evaluators/{evaluator}"]  # of the pages, and live
        (self.folder / "serve.log").unlink(missing_ok=True)
        with serving(self.folder, "--ask", *named) as server:
            yield Browser(server.port, printed_link(server))


@contextmanager
def sample_project(folder: Path) -> Iterator[SampleProject]:
    """The project with its evaluators fitted and their outputs, and the model's server that the gate asks."""
    opened = SampleProject(folder)
    lines = whole_sample()[0].read_text("utf-8").splitlines()
    new = [chat for chat in map(json.loads, lines) if not chat["id"].startswith("support-")][:10]
    for day, chat in enumerate(new, 1):
        chat["metadata"]["time"] = f"2026-01-{day:02}T09:00:00Z"
    replies = [{**chat, "id": f"reply-{place}", "messages": chat["messages"][:2]} for place, chat in enumerate(new[:2])]
    for name, chats in {"new.jsonl": new, "replies.jsonl": replies}.items():
        (opened.folder / name).write_text("".join(json.dumps(chat) + "\n" for chat in chats), "utf-8")
    study = {
        "title": "Look",
        "order": "given",
        "show_prediction": True,
        "items": {"ids": [chat["id"] for chat in replies]},
    }
    settings: dict[str, Any] = {"draws": 50, "metrics": ["bank"], "evaluator": "mixture"}
    (opened.folder / "accord.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    opened("import", *map(str, sources()))
    opened("import", "new.jsonl", "replies.jsonl")
    opened.outputs = {"compare": json.loads(opened("compare", "--json")), "fit": json.loads(opened("fit", "--json"))}
    opened("report", "--out", "report.html")
    with ChatServer(answer_any) as model, pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "sk-loopback")
        settings["evaluators"] = {"every": {"head": "curves"}, "gated": {"head": "curves", "plausibility": True}}
        settings["models"] = {"likelihood": {"model": "m1", "base_url": model.url}}
        settings["live"] = {"plausibility_share": 1.0}
        settings["studies"] = dict.fromkeys(("mixture", "every", "gated"), study)
        (opened.folder / "accord.yaml").write_text(yaml.safe_dump(settings), encoding="utf-8")
        opened("fit", "every", "--every-question", *QUICK)
        opened("fit", "gated", *QUICK)
        yield opened


def post_live(browser: Browser, chats: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Send conversations to the live service, and return the rows of their replies."""
    messages = [
        {"conversation": chat["id"], **message, "documents": [each["text"] for each in chat.get("documents", ())]}
        for chat in chats
        for message in chat["messages"]
    ]
    headers = {"Content_Type": "application/json", "Authorization": f"Bearer {TOKEN}"}
    status, answer, _ = browser.ask("POST", "/v1/scores", json.dumps({"messages": messages}), **headers)
    assert status == 200, answer
    return [row for row in json.loads(answer)["scores"] if row["status"] != "heard"]


def rate_next(browser: Browser, study: str, value: int = 1) -> dict[str, int]:
    """Answer all questions of the next item; return the prediction that is then shown, in percent by option."""
    page = browser.get(f"/rate/{study}")
    where = re.findall(r'action="(/rate/[^"]+)"', page)[0]
    fields = {name: str(value) for name in re.findall(r'type="radio" name="([^"]+)"', page)}
    fields |= dict(re.findall(r'type="hidden" name="(id\.[^"]+)" value="([^"]+)"', page))
    assert browser.post(where, form=token(page), do="finish", **fields)[0] == 303
    shown = "".join(re.findall(r"The evaluator's prediction of your answer to .*?</p>", browser.get(where), re.DOTALL))
    return {option: int(percent) for option, percent in re.findall(r"(\d+) \((\d+) ?%\)", shown)}
