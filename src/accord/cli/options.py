"""Options shared by several commands, and functions that open the project they name."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from accord.cli.outputs import LIVE_ROWS

if TYPE_CHECKING:
    from accord.project import Project
    from accord.scoring import Turns
    from accord.values import Rubric
    from accord.web import WorkbenchContext

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Project file; default: accord.yaml here or in a folder above.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Format = Annotated[
    str, typer.Option("--format", help="Format of the conversations; `auto` detects it from the first row.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="OURS=THEIRS", help="Map a column, e.g. annotator=rater; repeatable."),
]
EvaluatorFolder = Annotated[
    Path | None,
    typer.Option("--evaluator", help="Folder of a fitted evaluator; default: the one fitted last."),
]
Annotator = Annotated[str | None, typer.Option("--annotator", help="Predict this annotator's answers.")]
RowsOut = Annotated[Path, typer.Option("--out", "-o", help="Append one JSON line per reply to this file."), LIVE_ROWS]
RowsOutIfNamed = Annotated[
    Path | None, typer.Option("--out", "-o", help="Append one JSON line per reply to this file."), LIVE_ROWS
]
Monitoring = Annotated[
    bool, typer.Option("--watch/--no-watch", help="Aggregate scores by day in the store, and raise alarms.")
]
Host = Annotated[
    str,
    typer.Option(
        "--host",
        help="Address to listen on. Beyond this machine, pages need users, live scoring ACCORD_TOKEN.",
    ),
]
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Port to listen on.")]
HostNames = Annotated[
    list[str] | None,
    typer.Option("--name", help="Host name that browsers use from other machines; repeatable."),
]
Main = Annotated[str | None, typer.Option("--main", help="Main question; by default it is detected.")]
LabelColumns = Annotated[
    list[str] | None,
    typer.Option("--labels", metavar="COLUMN", help="Column with ratings, or `none`; repeatable."),
]
RaterColumns = Annotated[
    list[str] | None,
    typer.Option("--rater", metavar="COLUMN", help="Column with the ratings of one annotator; repeatable."),
]
Scales = Annotated[
    list[str] | None,
    typer.Option(
        "--scale", metavar="QUESTION=LOW..HIGH", help="Scale of a question; by default it is detected. Repeatable."
    ),
]
Unnamed = Annotated[
    bool,
    typer.Option("--unnamed", help="Annotators (r1, r2, ...) are positions in a list of ratings, not persons."),
]
Roles = Annotated[
    list[str] | None,
    typer.Option("--role", metavar="THEIRS=OURS", help="Map a role, e.g. operator=assistant; repeatable."),
]
AskModels = Annotated[
    bool, typer.Option("--ask", help="Let sources that are not live send requests to their models for every reply.")
]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Report and skip bad rows instead of stopping.")]


MaxRequests = Annotated[int | None, typer.Option("--max-requests", help="Budget: maximum number of requests.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Budget: maximum number of tokens.")]
MaxMoney = Annotated[float | None, typer.Option("--max-money", help="Budget: maximum cost.")]


Setting = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Setting for this run, e.g. sources.issues.by=judge; repeatable."),
]


InTraining = Annotated[
    bool,
    typer.Option("--include-training", help="Include conversations that the evaluator learned from."),
]


ScoredTurns = Annotated[
    str,
    typer.Option(
        "--turns",
        help="Turns that an evaluator of turns scores: all, last, or rated (the turns that annotators rated; in a "
        "conversation without ratings, the turn marked in its file, else all replies).",
    ),
]


Synthetic = Annotated[
    str | None,
    typer.Option("--synthetic", metavar="WHICH", help="Synthetic conversations: without (default), with, or only."),
]


def synthetic_setting(synthetic: str | None) -> list[str]:
    """Return the setting of `--synthetic`."""
    return [] if synthetic is None else [f"synthetic={synthetic}"]


def open_counted(
    config_file: Path | None, synthetic: str | None, settings: list[str] | None = None, question: str | None = None
) -> Project:
    """Open a project, and print a note on synthetic conversations if results include them.

    Raises:
        BadInput: See `open_project`.
    """
    from accord.cli.terminal import note
    from accord.project import synthetic_note

    project = open_project(config_file, [*(settings or ()), *synthetic_setting(synthetic)], question)
    if said := synthetic_note(project):
        note(said)
    return project


def open_project(
    config_file: Path | None,
    settings: list[str] | None = None,
    question: str | None = None,
    creates: bool = False,
) -> Project:
    """Open a project.

    Args:
        config_file: Project file; by default `accord.yaml` in this folder or the nearest folder above.
        settings: Settings for this run, as `KEY=VALUE`.
        question: Question to learn; by default the main question.
        creates: Create the store if it does not exist. Without it, a missing store is replaced by an empty one in
            memory.

    Raises:
        BadInput: There is no project, or its file or a setting is invalid.
    """
    import logging

    from accord.edges import strip_url_secrets
    from accord.project import Project, load_project, with_settings
    from accord.store import store_exists

    config = with_settings(load_project(config_file), settings or ())
    for error in config.broken_studies.values():
        note_broken_study(error)
    logging.getLogger("accord").info(
        "project in %s, store %s", config.folder.absolute(), strip_url_secrets(config.store)
    )
    if creates or store_exists(config.store):
        return Project(config, question=question)
    project = Project(config.model_copy(update={"store": "sqlite:///:memory:"}), question=question)
    project.store.replaces = config.store
    return project


def store_of(config_file: Path | None, creates: bool = False) -> str:
    """Return the URL of the project's store.

    Raises:
        BadInput: There is no project, or no store and `creates` is False.
    """
    from accord.edges import BadInput
    from accord.project import load_project
    from accord.store import store_exists

    url = load_project(config_file).store
    if not creates and not store_exists(url):
        raise BadInput(f"there is no store {url} yet. Import into it first: accord import chats.jsonl labels.csv")
    return url


def note_broken_study(error: str) -> None:
    """Print the error of a study that cannot be used."""
    from accord.cli.terminal import note

    note(f"{error.rstrip('.')}. Correct it under `studies` in accord.yaml; other studies are not affected")


def note_broken_studies(bench: WorkbenchContext) -> None:
    """Print the errors of studies that cannot be opened, except those that `open_project` printed."""
    for study in bench.invalid_studies.keys() - bench.project.config.broken_studies.keys():
        note_broken_study(bench.invalid_studies[study])


def server_url(host: str, port: int) -> str:
    """Return the URL of a server on this machine."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def note_sign_in_link(bench: WorkbenchContext, site: str, page: str = "/") -> None:
    """Print a one-time sign-in link if there are no user accounts."""
    from accord.cli.terminal import note
    from accord.web import local_sign_in_link

    if bench.accounts.is_single_user:
        note(f"sign in with this link, which works once: {local_sign_in_link(bench.studies, site, page)}")


def evaluator_folder(project: Project, named: Path | None) -> Path:
    """Return the folder of the named evaluator, or of the one fitted last, and print it."""
    from accord.cli.terminal import note

    folder = named or project.folder()
    if folder.is_dir():
        note(f"evaluator: {folder}")
    return folder


def turn_choice(turns: str) -> Turns:
    """Return the value of `--turns`.

    Raises:
        UnknownName: The value is unknown.
    """
    from accord.edges import UnknownName
    from accord.scoring import TURNS

    found = next((each for each in TURNS if each == turns), None)
    if found is None:
        raise UnknownName("choice of turns", turns, TURNS)
    return found


def role_map(pairs: list[str] | None) -> dict[str, str]:
    """Return `THEIRS=OURS` pairs of roles as a mapping.

    Raises:
        BadInput: A pair has no `=`, or an unknown role.
    """
    if not pairs:
        return {}
    from accord.formats import check_roles

    return check_roles({theirs: ours for theirs, _, ours in (pair.rpartition("=") for pair in pairs)})


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


def scale_map(pairs: list[str] | None) -> dict[str, tuple[float, float]]:
    """Return `QUESTION=LOW..HIGH` pairs as a mapping.

    Raises:
        BadInput: A pair has another form, or `LOW` is not below `HIGH`.
    """
    from accord.edges import BadInput

    found = {}
    for pair in pairs or ():
        name, _, ends = pair.rpartition("=")
        match = re.fullmatch(r"(-?\d+(?:\.\d+)?)(?:\.\.|-)(-?\d+(?:\.\d+)?)", ends.strip())
        if not name or match is None or float(match[1]) >= float(match[2]):
            raise BadInput(f"--scale takes QUESTION=LOW..HIGH, got {pair!r}; for example rating=1..5")
        found[name] = float(match[1]), float(match[2])
    return found


def column_map(pairs: list[str] | None, rubric: Rubric | None = None) -> dict[str, str]:
    """Return `OURS=THEIRS` pairs as a mapping; questions of `rubric` are valid names.

    Raises:
        BadInput: A pair has no `=`.
        UnknownName: No format has a column of that name.
    """
    from accord.edges import BadInput

    if not pairs:
        return {}
    from accord.formats import check_column_names

    for pair in pairs:
        if "=" not in pair:
            raise BadInput(f"--columns takes OURS=THEIRS, got {pair!r}; for example annotator=rater_id")
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
) -> str:
    """Return a shell command on files, with its options quoted.

    Args:
        command: The words before the files.
        files: The files.
        labels: Values of `--labels`.
        columns: Values of `--columns`.
        raters: Values of `--rater`.
        label_files: Values of `--from`.
    """
    options = {"--from": label_files, "--labels": labels, "--rater": raters, "--columns": columns or ()}
    words = [str(file) for file in files]
    words += [str(word) for option, values in options.items() for value in values for word in (option, value)]
    return f"{command} {shlex.join(words)}"
