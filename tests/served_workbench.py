"""A project with a study, a server for it, and a browser without script, for tests of sessions, pages and browsers."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

from serving import running
from waiting import until

from accord import Conversation, Project, Turn
from accord.project import Config
from accord.store import Assignment, Studies
from accord.studies import StudySession, SubmittedAnswer
from accord.web import ProjectFiles, WorkbenchContext, add_person, local_sign_in_link, workbench_app

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


def project(folder: Path, **study: Any) -> Project:
    """A project of one study over twelve conversations."""
    config = {"store": f"sqlite:///{folder}/accord.db", "studies": {"look": {**STUDY, **study}}}
    opened = Project(Config.model_validate(config))
    opened.store.add_conversations(chats(12))
    return opened


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


def rate_all(look: StudySession, assignment: Assignment, value: Any = 1) -> Assignment:
    """Give all questions of an item the same answer and finish it."""
    for question in look.view(assignment).questions:
        id = f"{assignment.person}-{assignment.id}-{question.id}"[:64]
        look.answer(assignment.person, submitted(assignment.id, question.id, value, id))
    return look.finish(assignment.person, assignment.id)


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
        connection.request(
            method,
            path,
            body if body is None else body.encode("latin-1"),
            {**own, **{name.replace("_", "-"): v for name, v in headers.items()}},
        )
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


def shown_after(browser: Browser, path: str, **fields: str) -> str:
    """Send a form that answers with a redirect, and return the page that it leads to."""
    status, page, where = browser.post(path, **fields)
    assert status == 303, (status, page)
    return browser.get(where)


def token(page: str) -> str:
    found = re.search(r'name="form" value="(\w+)"', page)
    assert found is not None, page
    return found[1]


def form_of(page: str) -> tuple[str, dict[str, str]]:
    """The action and the hidden fields of the form of questions."""
    where = re.search(r'action="(/rate/look/[^"]+)" id="questions"', page)
    assert where is not None, page
    inside = page[where.end() : page.index("</form>", where.end())]
    hidden = re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', inside)
    return where[1], {name: html.unescape(value) for name, value in hidden}


@contextmanager
def served(opened: Project, files: ProjectFiles | None = None, **options: Any) -> Iterator[int]:
    """A workbench on a port of this machine; its pages can change `files`."""
    bench = WorkbenchContext(opened, files=files)
    try:
        with running(workbench_app(bench, **options)) as port:
            site = f"http://127.0.0.1:{port}"
            LINKS[port] = lambda: local_sign_in_link(bench.studies, site) if bench.accounts.is_single_user else None
            yield port
            del LINKS[port]
    finally:
        bench.close()


class Workbench:
    """A served project with its people.

    Args:
        opened: The project.
        port: Of the server.
        keys: Key of each person's sign-in link.
    """

    def __init__(self, opened: Project, port: int, keys: dict[str, str]) -> None:
        self.project, self.store, self.port, self.keys = opened, opened.store, port, keys
        self.studies = Studies(opened.store)

    def browser(self, person: str = "") -> Browser:
        """A browser that is signed in as a person, or as the single user of a workbench without accounts."""
        browser = Browser(self.port)
        if person:
            assert browser.post("/in", key=self.keys[person])[0] == 303
        return browser

    def session(self, name: str = "look") -> StudySession:
        session = StudySession(self.project, name, self.studies)
        session.begin()
        return session


@contextmanager
def open_workbench(
    opened: Project, people: Sequence[str] = (), leads: Sequence[str] = (), **options: Any
) -> Iterator[Workbench]:
    """Serve a project for annotators and leads with accounts, or for a single user."""
    studies = Studies(opened.store)
    keys = {name: add_person(studies, name, returns=True) for name in people}
    keys |= {name: add_person(studies, name, "lead", returns=True) for name in leads}
    studies.close()
    with served(opened, **options) as port:
        bench = Workbench(opened, port, keys)
        yield bench
        bench.studies.close()


StartWorkbench = Callable[..., Workbench]
"""The fixture `workbench`."""


def printed_link(server: Any) -> str:
    """Return the sign-in link that `accord serve` printed last; it does so once it listens."""
    until(lambda: "/in/" in server.log, lambda: server.log)
    return str(re.findall(r"http://\S+/in/\S+", server.log)[-1])
