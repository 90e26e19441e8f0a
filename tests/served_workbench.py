"""A small project with a study, a server for it, and a browser without script, for tests of pages."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import uvicorn

from accord import Conversation, Turn
from accord.project import Config, Project
from accord.store import Studies
from accord.studies import StudySession, SubmittedAnswer
from accord.web import WorkbenchContext, local_sign_in_link, workbench_app

STUDY: dict[str, Any] = {"title": "First look", "annotators_per_item": 2}
LINKS: dict[int, Callable[[], str | None]] = {}
"""By port of a server in this process: make a one-time sign-in link; it returns `None` if there are accounts."""


def chats(count: int) -> list[Conversation]:
    return [
        Conversation(
            f"gpt-9-{place}",
            (Turn("user", f"Question {place}?"), Turn("assistant", f"Answer <b>{place}</b>.")),
            metadata={"system": "gpt-9" if place % 2 else "other", "topic": str(place % 3)},
        )
        for place in range(count)
    ]


@contextmanager
def project(folder: Path, **study: Any) -> Iterator[Project]:
    """A project of one study over twelve conversations."""
    config = Config.model_validate({"store": f"sqlite:///{folder}/accord.db", "studies": {"look": {**STUDY, **study}}})
    with Project(config) as opened:
        opened.store.add_conversations(chats(12))
        yield opened


@contextmanager
def study(folder: Path, **settings: Any) -> Iterator[StudySession]:
    with project(folder, **settings) as opened:
        studies = Studies(opened.store)
        found = StudySession(opened, "look", studies)
        found.begin()
        yield found
        studies.close()


def row(assignment: str, question: str = "Q0", value: Any = 3, id: str = "a" * 20, **more: Any) -> dict[str, Any]:
    return {"assignment": assignment, "id": id, "question": question, "value": value, **more}


def submitted(
    assignment: str, question: str = "Q0", value: Any = 3, id: str = "a" * 20, **more: Any
) -> SubmittedAnswer:
    return SubmittedAnswer.from_json(row(assignment, question, value, id, **more))


class Browser:
    """A browser without script: it keeps its cookies and sends forms.

    Args:
        port: Of the server.
        link: A sign-in link to open; by default one of the server in this process, if it has no accounts.
    """

    def __init__(self, port: int, link: str | None = None) -> None:
        self.port, self.cookies = port, dict[str, str]()
        link = link or LINKS.get(port, lambda: None)()
        if link:
            self.get(urlsplit(link).path)

    def ask(self, method: str, path: str, body: str | None = None, **headers: str) -> tuple[int, str, str]:
        """The status, the body, and where it sends on to."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        own = {"Host": f"localhost:{self.port}", "Origin": f"http://localhost:{self.port}"}
        own["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        if body is not None:
            own["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, body, {**own, **{name.replace("_", "-"): v for name, v in headers.items()}})
        answer = connection.getresponse()
        said = answer.read().decode()
        for cookie in answer.headers.get_all("Set-Cookie") or ():
            name, _, rest = cookie.partition("=")
            self.cookies[name] = rest.partition(";")[0]
        connection.close()
        return answer.status, said, answer.headers.get("Location", "")

    def get(self, path: str) -> str:
        """Return a page after following redirects."""
        status, said, where = self.ask("GET", path)
        while status == 303:
            status, said, where = self.ask("GET", where)
        self.status = status
        return said

    def post(self, path: str, **fields: str) -> tuple[int, str, str]:
        """Send a form of the page that was got last."""
        return self.ask("POST", path, urlencode(fields))


def token(page: str) -> str:
    found = re.search(r'name="form" value="(\w+)"', page)
    assert found is not None, page
    return found[1]


@contextmanager
def served(opened: Project, **options: Any) -> Iterator[int]:
    """A workbench on a port of this machine."""
    bench = WorkbenchContext(opened)
    server = uvicorn.Server(
        uvicorn.Config(workbench_app(bench, **options), "127.0.0.1", 0, log_level="warning", access_log=False)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        threading.Event().wait(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    site = f"http://127.0.0.1:{port}"
    LINKS[port] = lambda: local_sign_in_link(bench.studies, site) if bench.accounts.is_single_user else None
    try:
        yield port
    finally:
        del LINKS[port]
        server.should_exit = True
        thread.join()
        bench.close()


def printed_link(log: str) -> str:
    """Return the sign-in link that `accord serve` printed last."""
    return re.findall(r"http://\S+/in/\S+", log)[-1]
