"""`accord store erase`, `expire` and `person`: personal data of a project."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.commands.store import store
from accord.cli.options import ResultOptions
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import note
from accord.edges import AccordError, BadInput, count_of, one_line

if TYPE_CHECKING:
    from accord.project import Erasure
    from accord.verbs import Project

Refit = Annotated[
    bool,
    typer.Option("--refit", help="Then fit the evaluators again that learned from it, and make their cards again."),
]
Plan = Annotated[bool, typer.Option("--plan", help="Count what would be erased, by place; change nothing.")]


@command("erase", store)
def erase(
    options: ResultOptions,
    conversation: Annotated[
        list[str] | None, typer.Option("--conversation", metavar="ID", help="A conversation; repeatable.")
    ] = None,
    user: Annotated[
        list[str] | None,
        typer.Option("--user", metavar="ID", help="All conversations of this user, by their metadata."),
    ] = None,
    annotator: Annotated[
        list[str] | None,
        typer.Option("--annotator", metavar="NAME", help="An annotator's account, ratings and chats; repeatable."),
    ] = None,
    before: Annotated[
        str | None, typer.Option("--before", metavar="DATE", help="Conversations whose last message is older.")
    ] = None,
    keep_scores: Annotated[
        bool, typer.Option("--keep-scores", help="Keep scores under a pseudonym, without texts.")
    ] = False,
    keep_labels: Annotated[
        bool, typer.Option("--keep-labels", help="Keep an annotator's labels under a pseudonym, without comments.")
    ] = False,
    plan: Plan = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask no question.")] = False,
    resumes: Annotated[bool, typer.Option("--resume", help="Continue erasures that were interrupted.")] = False,
    refit: Refit = False,
) -> None:
    """Erase conversations or people everywhere in the project: store, scores, cached replies, evaluators, reports.

    The receipt has counts and hashes, and lists your own files with mentions. Erased conversations
    are not imported again unless you ask for it (accord import --with-erased).
    """
    from accord.project import Selection, plan_erasure
    from accord.project import erase as erase_in
    from accord.project import resume as resume_in

    selection = Selection(
        conversations=tuple(conversation or ()),
        users=tuple(user or ()),
        annotators=tuple(annotator or ()),
        before=None if before is None else Selection.read_time(before),
        keep_scores=keep_scores,
        keep_labels=keep_labels,
    )
    with options.open() as project:
        if resumes:
            done = resume_in(project)
            options.show({"erasures": [each.to_json() for each in done]}, lambda _: _resumed_text(done))
            return
        found = plan_erasure(project, selection) if plan or not yes else None
        if found is not None and (plan or found.is_empty):
            options.show({"plan": True, **found.to_json()}, lambda _: _text(found, "would be erased"))
            return
        if found is not None:
            _confirm(found)
        for each in resume_in(project):
            note(f"an earlier erasure was interrupted and is complete now: {each.id}")
        receipt = erase_in(project, selection)
        made = _refitted(project, receipt) if refit else []
        options.show(
            {**receipt.to_json(), **({"refitted": made} if refit else {})},
            lambda _: "\n".join([_text(receipt, "erased", refit), *made]),
        )


def _confirm(found: Erasure) -> None:
    """Ask before something is erased.

    Raises:
        BadInput: There is no terminal to ask on.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise BadInput(
            "erasing asks before it begins, and there is no terminal here; to erase without a question: --yes"
        )
    note(_text(found, "will be erased"))
    typer.confirm("Erase them? This cannot be undone.", abort=True, err=True)


def _refitted(project: Project, found: Erasure) -> list[str]:
    """Fit the evaluators again that learned from erased conversations, make their cards again, and say so.

    What fails is said too: the erasure is complete.
    """
    from accord.project import remake_card

    said = []
    for row in found.learned:
        if row["folder"] != row["evaluator"] or row["question"] != project.question.id:
            said.append(f"{row['folder']} was not fitted again; if you use it: {found.refit[row['folder']]}")
            continue
        try:
            note(f"fits {row['evaluator']} again")
            project.fit(row["evaluator"], every_question=row["every_question"])
            said.append(f"fitted {row['evaluator']} again, from the conversations that are left")
            for card in row["cards"]:
                remake_card(project, project.config.folder / card)
                said.append(f"made {card} again")
        except AccordError as error:
            said.append(f"not done, do it yourself: {found.refit[row['folder']]}, then accord card: {error}")
    return said


def _resumed_text(done: list[Erasure]) -> str:
    return "\n\n".join(_text(each, "erased") for each in done) or "no erasure was interrupted"


def _text(found: Erasure, verb: str, refits: bool = False) -> str:
    """Return the counts by place, the changed files, and the files left to the user."""
    from accord.project import PLACE_WORDS, refit_sentences

    counts = [count_of(found.conversations, "conversation")] if found.conversations or not found.annotators else []
    counts += [count_of(found.annotators, "annotator")] if found.annotators else []
    lines = [f"{' and '.join(counts)} {verb}"]
    lines += [f"  {table}: {count_of(count, 'row')}" for table, count in found.rows.items()]
    lines += [f"  scores of the board: {count_of(found.scores, 'row')}"] if found.scores else []
    own = {"yours": [], "unreadable": []}  # type: dict[str, list[str]]
    for each in found.files:
        if each.kind in own:
            own[each.kind].append(one_line(str(each.path), 4096))
        else:
            rows = f", {count_of(each.rows, 'row')}" if each.rows else ""
            lines.append(f"  {PLACE_WORDS[each.kind]}: {each.path}{rows}")
    lines += [f"your own file still mentions it; remove it there: {path}" for path in own["yours"]]
    lines += [f"could not be searched; look into it yourself: {path}" for path in own["unreadable"]]
    if found.unknown:
        lines.append(
            f"{count_of(found.unknown, 'scored conversation')} outside the store may be by this user: no file here "
            "names the user; erase by ID: --conversation"
        )
    lines += [
        f"requests about it are in a batch at the provider; delete its files there: {each}" for each in found.batches
    ]
    if not refits or verb != "erased":
        lines += refit_sentences(found.learned, verb == "erased")
        lines += ["--refit does both"] if found.learned and verb != "erased" and not refits else []
        lines += [f"  {fit}" for fit in found.refit.values()]
    if found.id:
        lines.append(f"receipt {found.id}, names {found.hash}")
    return "\n".join(lines)


@command("expire", store)
def expire(options: ResultOptions, plan: Plan = False, refit: Refit = False) -> None:
    """Erase data older than the periods of `privacy: retention:`; for cron. `accord serve` does so daily."""
    from accord.project import expire as expire_in

    with options.open() as project:
        found = expire_in(project, plan)
        made = _refitted(project, found) if refit and not plan else []
    options.show(
        {"plan": plan, **found.to_json(), **({"refitted": made} if made else {})},
        lambda _: "\n".join([_text(found, "would be erased" if plan else "erased", refit), *made]),
    )


@command("person", store)
def person(
    options: ResultOptions,
    name: Annotated[str, typer.Argument(help="An annotator, or a user in the metadata of conversations.")],
    export: Annotated[
        Path, typer.Option("--export", metavar="FOLDER", help="New folder for the data."), CHECKED_BY_COMMAND
    ],
) -> None:
    """Write all data of one person to a folder: account, ratings, chats, conversations and their scores."""
    from accord.project import export_person

    with options.open() as project:
        counts = export_person(project, name, export)
    options.show({"folder": str(export), "rows": counts}, _person_text)


def _person_text(result: Mapping[str, Any]) -> str:
    rows = ", ".join(f"{count} in {file}.jsonl" for file, count in result["rows"].items())
    return f"{result['folder']}: {rows}"
