"""Agreement cards: `accord card` and `accord card diff`."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.app import CommandGroup, app, command
from accord.cli.options import AsJson, StatisticsOptions
from accord.cli.outputs import AGREEMENT_CARD
from accord.cli.terminal import note, show, table
from accord.edges import BadInput, count_of

if TYPE_CHECKING:
    from accord.decisions import AgreementCard

_WRITE = "write"
_HEADLINES = ("labels.count", "labels.conversations", "title", "agreement.", "bands.", "decided")
"""Fields whose changes are printed when a card is made again; `accord card diff` prints all."""


class _CardGroup(CommandGroup):
    """Group whose first command is meant where none is named."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; without a command's name, those of `accord card write`."""
        named = args[:1]
        if not named or (named[0] not in self.commands and named[0] not in ("--help", "-h")):
            args = [_WRITE, *args]
        return list(super().parse_args(ctx, args))


card = typer.Typer(
    cls=_CardGroup,
    help="Write the agreement card of an evaluator, which a release gate can require, or compare two cards.",
    rich_markup_mode=None,
)
app.add_typer(card, name="card")


@command(_WRITE, card)
def write(
    options: StatisticsOptions,
    name: Annotated[
        str | None, typer.Argument(help="A fitted evaluator of the project; default: the one in use.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="JSON file; .md and .svg are written next to it."), AGREEMENT_CARD
    ] = Path("agreement-card.json"),
    held_out: Annotated[
        list[Path] | None,
        typer.Option(
            "--held-out",
            exists=True,
            help="Conversations and ratings that the evaluator never saw; repeat. Each use of a set is recorded.",
        ),
    ] = None,
    labels_by: Annotated[
        str, typer.Option("--labels-by", help="`people`; `models` declares that the ratings were made by models.")
    ] = "people",
    by: Annotated[
        list[str] | None, typer.Option("--by", help="Audit groups of this metadata entry too; repeat.")
    ] = None,
) -> None:
    """Write the agreement card of an evaluator; this is what `accord card` does without a command's name.

    The card states the permitted use of the scores, agreement with intervals, the provenance of the ratings, and
    digests of evaluator, rubric and data. `accord gate --card FILE` fails if any of these has changed.
    """
    from accord.decisions import AgreementCard, write_card
    from accord.project import CardOptions, card_of

    before = None
    with suppress(BadInput):  # no card, or a changed one, is replaced
        before = AgreementCard.read(out)
    with options.open_counted() as project:
        note(f"evaluator: {name or project.folder().name}")
        made = card_of(project, name, CardOptions(held_out or (), labels_by, by or ()))
        files = [str(each) for each in write_card(made, out)]
        changed = [] if before is None else _differences(before, made)
        options.show(
            {"card": made.signed(), "files": files, "differences": changed},
            lambda result: _card_text(made, result["files"]) + _changed_text(changed),
        )


def _card_text(made: Any, files: list[str]) -> str:
    first, test = made.agreement[0], made.test
    lines = [f"{made.title}. {made.sentence}", ""]
    lines += [f"r with people within annotators  {first.within_annotators}", f"r with people, pooled  {first.pooled}"]
    lines += [f"note: {each}" for each in made.limits]
    if test.uses > 1 and test.method != "held-out set":
        lines.append(f"these ratings were used {count_of(test.uses, 'time')}, first on {test.first_used}")
    return "\n".join([*lines, "", f"card in {', '.join(files)}", f"digest {made.digest}"])


def _differences(old: AgreementCard, new: AgreementCard) -> list[dict[str, str]]:
    return [{"field": field, "old": before, "new": after} for field, before, after in old.differences(new)]


def _changed_text(rows: list[dict[str, str]]) -> str:
    """Return the changes of the figures and the verdict of a card that was replaced; empty for a new one."""
    shown = [list(row.values()) for row in rows if row["field"].startswith(_HEADLINES)]
    return f"\n\nchanged since the card before\n{table(['field', 'before', 'now'], shown)}" if shown else ""


@command("diff", card)
def diff(
    old: Annotated[Path, typer.Argument(help="A card.")],
    new: Annotated[Path, typer.Argument(help="Another card.")],
    as_json: AsJson = False,
) -> None:
    """Show the fields that differ between two cards."""
    from accord.decisions import AgreementCard

    rows = _differences(AgreementCard.read(old), AgreementCard.read(new))

    def text(_: Any) -> str:
        shown = table(["field", str(old), str(new)], [list(row.values()) for row in rows])
        return shown if rows else "the cards are equal"

    show({"differences": rows}, as_json, text)
