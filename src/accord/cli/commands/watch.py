"""`accord watch`: live scores of the last days, and alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.terminal import figure_text, show, table

if TYPE_CHECKING:
    from accord.live import DayRow, WatchReport


@command("watch")
def watch(
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="Days to look back.")] = 14,
    labels: Annotated[int, typer.Option("--label-next", min=0, help="Number of replies to suggest for labelling.")] = 5,
    fail: Annotated[bool, typer.Option("--fail-on-alarm", help="Exit with code 3 when an alarm is new.")] = False,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Mean scores per system and day with intervals; checks finished days, and sends alarms to the webhook."""
    from functools import partial

    from accord.edges import GateFailed
    from accord.live import post, report, see_to, tell

    with open_project(config_file, settings) as project:
        config = project.config.monitoring
        new = see_to(project.store, config.false_alarm_rate)
        found = report(project.store, days, labels=labels)
        show({**found, "new_alarms": len(new)}, as_json, lambda shown: _text(cast("WatchReport", shown)))
        if config.webhook is not None:
            tell(project.store, partial(post, config.webhook))
        if fail and new:
            raise GateFailed(f"{len(new)} new alarms: {new[0].said}")


def _text(found: WatchReport) -> str:
    if not found["days"]:
        return "nothing was scored live in these days: accord serve, or accord follow LOG --out scores.jsonl"
    numbers = {signature: str(place) for place, signature in enumerate(_evaluators(found), 1)}
    rows = [
        [
            row["system"], row["day"], numbers[row["evaluator"]], str(row["replies"]), _conversations(row),
            figure_text(row["mean"], row["low"], row["high"]), str(sum(row["unscored"].values())), str(row["warned"]),
        ]
        for row in found["days"]
    ]  # fmt: skip
    header = ["system", "day", "evaluator", "replies", "conversations", "mean", "unscored", "warned"]
    lines = [table(header, rows), "", *(f"evaluator {n}: {name}" for name, n in numbers.items())]
    for change in found["evaluator_changes"]:
        number = numbers[change["evaluator"]]
        lines.append(
            f"{change['system']}: scored by evaluator {number} from {change['day']} on; a step is the evaluator's"
        )
    lines += ["", *(f"alarm: {alarm['said']}" for alarm in found["alarms"])] if found["alarms"] else []
    if found["label_next"]:
        lines += ["", "least sure of, worth a label:"]
        lines += [f"  {each['conversation']} turn {each['turn']}: {each['score']:.2f}, variance {each['variance']:.2f}"
                  for each in found["label_next"]]  # fmt: skip
    return "\n".join(lines)


def _conversations(row: DayRow) -> str:
    low, high = row["conversations_low"], row["conversations_high"]
    return str(row["conversations"]) if low == high else f"about {row['conversations']} [{low}, {high}]"


def _evaluators(found: WatchReport) -> list[str]:
    return list(dict.fromkeys(row["evaluator"] for row in sorted(found["days"], key=lambda row: row["day"])))
