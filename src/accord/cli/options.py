"""Options shared by several commands, in groups."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from accord.cli.outputs import LIVE_ROWS
from accord.cli.terminal import note, note_project, show
from accord.edges import BadInput

if TYPE_CHECKING:
    from accord.project import Config
    from accord.values import Rubric
    from accord.verbs import Project
    from accord.web import WorkbenchContext

AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Format = Annotated[
    str, typer.Option("--format", help="Format of the conversations; `auto` detects it from the first row.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="OURS=THEIRS", help="Map a column, e.g. annotator=person; repeatable."),
]
RowsOut = Annotated[Path, typer.Option("--out", "-o", help="Append one JSON line per reply to this file."), LIVE_ROWS]
RowsOutIfNamed = Annotated[
    Path | None, typer.Option("--out", "-o", help="Append one JSON line per reply to this file."), LIVE_ROWS
]
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")]
Planned = Annotated[bool, typer.Option("--plan", help="Print requests and cost; ask nothing.")]
Anonymous = Annotated[
    bool, typer.Option("--anonymous", help="Annotators (r1, r2, ...) are positions in a list of ratings, not persons.")
]
InTraining = Annotated[
    bool, typer.Option("--include-training", help="Include conversations that the evaluator learned from.")
]
ScoredTurns = Annotated[
    Literal["rated", "all", "last"],
    typer.Option(
        "--turns",
        help="Turns that an evaluator of turns scores: all, last, or rated (the turns that annotators rated; in a "
        "conversation without ratings, the turn marked in its file, else all replies).",
    ),
]


# --- groups of options: a command takes one as a parameter ----------------------------------------------------------


@dataclass(frozen=True)
class ProjectOptions:
    """Options of every command that opens a project."""

    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Setting for this run, e.g. sources.issues.by=judge; repeatable."
        ),
    ] = None
    config_file: Annotated[
        Path | None, typer.Option("--config", help="Project file; default: accord.yaml here or in a folder above.")
    ] = None

    @property
    def changes(self) -> list[str]:
        """Settings for this run, as `KEY=VALUE`."""
        return self.settings or []

    def load(self, starts: bool = False) -> Config:
        """Return the settings of the project; with `starts`, the defaults in a folder without a project.

        Raises:
            BadInput: There is no project, or its file or a setting is invalid.
        """
        from accord.project import load_config, load_project, with_settings

        config = with_settings((load_config if starts else load_project)(self.config_file), self.changes)
        if self.config_file is None and config.folder != Path():
            note_project(config.folder / "accord.yaml")
        return config

    def open(self, question: str | None = None, creates: bool = False, starts: bool = False) -> Project:
        """Open the project.

        Args:
            question: Question to learn; by default the main question.
            creates: Create the store if it does not exist. Without it, a missing store is replaced by an empty one in
                memory.
            starts: Use the defaults in a folder without a project.

        Raises:
            BadInput: There is no project, or its file or a setting is invalid.
        """
        import logging

        from accord.edges import strip_url_secrets
        from accord.store import store_exists
        from accord.verbs import Project

        config = self.load(starts)
        for error in config.broken_studies.values():
            note(_broken_study_note(error))
        logging.getLogger("accord").info(
            "project in %s, store %s", config.folder.absolute(), strip_url_secrets(config.store)
        )
        if creates or store_exists(config.store):
            return Project(config, question=question)
        project = Project(config.model_copy(update={"store": "sqlite:///:memory:"}), question=question)
        project.store.replaces = config.store
        return project

    def store(self, creates: bool = False) -> str:
        """Return the URL of the project's store.

        Raises:
            BadInput: There is no project, or no store and `creates` is False.
        """
        from accord.store import store_exists

        url = self.load().store
        if not creates and not store_exists(url):
            raise BadInput(f"there is no store {url} yet. Import into it first: accord import chats.jsonl labels.csv")
        return url


@dataclass(frozen=True)
class ResultOptions(ProjectOptions):
    """Options of a command with a result that it can print as JSON."""

    as_json: AsJson = False

    def show(self, result: Mapping[str, Any], text: Callable[[Mapping[str, Any]], str]) -> None:
        """Print a result: as JSON, or as `text` writes it."""
        show(result, self.as_json, text)


@dataclass(frozen=True)
class StatisticsOptions(ResultOptions):
    """Options of a command that counts conversations."""

    synthetic: Annotated[
        str | None,
        typer.Option("--synthetic", metavar="WHICH", help="Synthetic conversations: without (default), with, or only."),
    ] = None

    other_scales: Annotated[
        str | None,
        typer.Option(
            "--other-scales",
            metavar="HOW",
            help="Labels on another scale than the rubric's: stop (default), leave-out, map or keep.",
        ),
    ] = None

    @property
    def changes(self) -> list[str]:
        """Settings for this run, as `KEY=VALUE`."""
        given = {"synthetic": self.synthetic, "other_scales": self.other_scales}
        return [*super().changes, *(f"{name}={value}" for name, value in given.items() if value is not None)]

    def open_counted(self, question: str | None = None) -> Project:
        """Open the project, and print a note on synthetic conversations if results include them.

        Raises:
            BadInput: See `open`.
        """
        from accord.project import synthetic_note

        project = self.open(question)
        if sentence := synthetic_note(project):
            note(sentence)
        return project


@dataclass(frozen=True)
class BudgetOptions:
    """Caps of the spending of a command."""

    max_requests: Annotated[int | None, typer.Option("--max-requests", help="Budget: maximum number of requests.")] = (
        None
    )
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", help="Budget: maximum number of tokens.")] = None
    max_money: Annotated[float | None, typer.Option("--max-money", help="Budget: maximum cost.")] = None

    def apply(self, project: Project) -> None:
        """Set the caps of a project's budget."""
        project.cap(requests=self.max_requests, tokens=self.max_tokens, money=self.max_money)


@dataclass(frozen=True)
class LabelOptions:
    """Options on columns with ratings."""

    labels: Annotated[
        list[str] | None,
        typer.Option("--labels", metavar="COLUMN", help="Column with ratings, or `none`; repeatable."),
    ] = None
    raters: Annotated[
        list[str] | None,
        typer.Option(
            "--rater",
            "--human",
            metavar="COLUMN[=NAME]",
            help="Column with the ratings of one annotator; repeatable.",
        ),
    ] = None
    judges: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            metavar="COLUMN[=NAME]",
            help="Column with a model's answers, or with names of models; repeatable.",
        ),
    ] = None

    orders: Annotated[
        list[str] | None,
        typer.Option(
            "--order",
            metavar="[COLUMN=]A>B>C",
            help="Order of the words of a scale, the highest first; by default known ones are detected. Repeatable.",
        ),
    ] = None

    @property
    def named_columns(self) -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
        """Columns of --labels, --rater and --judge; each is empty if the option is not given."""
        return self.labels or (), self.raters or (), self.judges or ()


@dataclass(frozen=True)
class RubricOptions(LabelOptions):
    """Options on the rubric that labels answer."""

    main: Annotated[str | None, typer.Option("--main", help="Main question; by default it is detected.")] = None
    scales: Annotated[
        list[str] | None,
        typer.Option(
            "--scale", metavar="QUESTION=LOW..HIGH", help="Scale of a question; by default it is detected. Repeatable."
        ),
    ] = None

    @property
    def scale_map(self) -> dict[str, tuple[float, float]]:
        """Ends of the scales by question.

        Raises:
            BadInput: A pair has another form than `QUESTION=LOW..HIGH`, or `LOW` is not below `HIGH`.
        """
        found = {}
        for pair in self.scales or ():
            name, _, ends = pair.rpartition("=")
            match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:\.\.|-)(-?\d+(?:\.\d+)?)", ends.strip())
            if not name or match is None or float(match[1]) >= float(match[2]):
                raise BadInput(f"--scale takes QUESTION=LOW..HIGH, got {pair!r}; for example rating=1..5")
            found[name] = float(match[1]), float(match[2])
        return found


@dataclass(frozen=True)
class ReadingOptions:
    """Options on how files are read."""

    format: Format = "auto"
    columns: Columns = None
    roles: Annotated[
        list[str] | None,
        typer.Option("--role", metavar="THEIRS=OURS", help="Map a role, e.g. operator=assistant; repeatable."),
    ] = None
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Report and skip bad rows instead of stopping.")
    ] = False

    @property
    def role_map(self) -> dict[str, str]:
        """Roles in the files to ours.

        Raises:
            BadInput: A pair has no `=`, or an unknown role.
        """
        if not self.roles:
            return {}
        from accord.formats import check_roles

        return check_roles({theirs: ours for theirs, _, ours in (pair.rpartition("=") for pair in self.roles)})


@dataclass(frozen=True)
class EvaluatorOptions:
    """Options on the evaluator that scores."""

    evaluator: Annotated[
        Path | None,
        typer.Option("--evaluator", help="Folder or name of a fitted evaluator; default: the one fitted last."),
    ] = None
    annotator: Annotated[str | None, typer.Option("--annotator", help="Predict this annotator's answers.")] = None

    def folder_in(self, project: Project) -> Path:
        """Return the folder of the evaluator, which may be given by its name in the project."""
        given = self.evaluator
        if given is None:
            return project.folder()
        own = project.evaluators_folder / given
        return own if not given.exists() and own.is_dir() else given


@dataclass(frozen=True)
class LiveOptions(EvaluatorOptions):
    """Options of live scoring."""

    watch: Annotated[
        bool, typer.Option("--watch/--no-watch", help="Aggregate scores by day in the store, and raise alarms.")
    ] = True
    ask: Annotated[
        bool, typer.Option("--ask", help="Let sources that are not live send requests to their models for every reply.")
    ] = False

    def folder(self, project: Project) -> Path:
        """Return the folder of the named evaluator, or of the one fitted last, and print it."""
        folder = self.folder_in(project)
        if folder.is_dir():
            note(f"evaluator: {folder}")
            project.warn_of_erased(folder)
        return folder


@dataclass(frozen=True)
class HostOptions:
    """Options on the address of a server."""

    host: Annotated[
        str,
        typer.Option(
            "--host", help="Address to listen on. Beyond this machine, pages need users, live scoring ACCORD_TOKEN."
        ),
    ] = "127.0.0.1"
    names: Annotated[
        list[str] | None,
        typer.Option("--name", help="Host name that browsers use from other machines; repeatable."),
    ] = None

    def url(self, port: int) -> str:
        """Return the URL of a server on this machine."""
        return server_url(self.host, port)


# --- notes and values that several commands share --------------------------------------------------------------------


def _broken_study_note(error: str) -> str:
    return f"{error.removesuffix('.')}. Correct it under `studies` in accord.yaml; other studies are not affected"


def broken_study_notes(bench: WorkbenchContext) -> list[str]:
    """Return the errors of studies that cannot be opened, except those that `ProjectOptions.open` printed."""
    names = bench.invalid_studies.keys() - bench.project.config.broken_studies.keys()
    return [_broken_study_note(bench.invalid_studies[name]) for name in names]


def server_url(host: str, port: int) -> str:
    """Return the URL of a server on this machine."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def sign_in_notes(bench: WorkbenchContext, site: str, page: str = "/") -> list[str]:
    """Return a note with a one-time sign-in link if there are no user accounts."""
    from accord.web import local_sign_in_link

    if not bench.accounts.is_single_user:
        return []
    return [f"sign in with this link, which works once: {local_sign_in_link(bench.studies, site, page)}"]


def are_positions(positions: Callable[[], Sequence[str]]) -> bool:
    """Ask on a terminal if annotators such as r1, r2 are positions in a list; return False without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return False
    found = positions()
    return bool(found) and not typer.confirm(
        f"Annotators {found[0]} to {found[-1]}: does each name belong to one person in all conversations?",
        default=True,
        err=True,
    )


def column_map(pairs: list[str] | None, rubric: Rubric | None = None) -> dict[str, str]:
    """Return `OURS=THEIRS` pairs as a mapping; questions of `rubric` are valid names.

    Raises:
        BadInput: A pair has no `=`.
        UnknownName: No format has a column of that name.
    """
    if not pairs:
        return {}
    from accord.formats import check_column_names

    for pair in pairs:
        if "=" not in pair:
            raise BadInput(f"--columns takes OURS=THEIRS, got {pair!r}; for example annotator=person_id")
    columns = dict(pair.split("=", 1) for pair in pairs)
    check_column_names(columns, () if rubric is None else (question.id for question in rubric.questions))
    return columns


def command_line(
    command: str,
    files: Sequence[str | Path],
    labels: Sequence[str] = (),
    columns: list[str] | None = None,
    raters: Sequence[str] = (),
    label_files: Sequence[str | Path] = (),
    judges: Sequence[str] = (),
    orders: Sequence[str] | None = None,
) -> str:
    """Return a shell command on files, with its options quoted.

    Args:
        command: The words before the files.
        files: The files.
        labels: Values of `--labels`.
        columns: Values of `--columns`.
        raters: Values of `--rater`.
        label_files: Values of `--from`.
        judges: Values of `--judge`.
        orders: Values of `--order`.
    """
    options = {
        "--from": label_files, "--labels": labels, "--rater": raters, "--judge": judges, "--columns": columns or (),
        "--order": orders or (),
    }  # fmt: skip
    words = [str(file) for file in files]
    words += [
        word
        for option, values in options.items()
        for value in map(str, values)
        for word in ((f"{option}={value}",) if value.startswith("-") else (option, value))
    ]
    return f"{command} {shlex.join(words)}"
