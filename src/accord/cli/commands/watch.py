"""`accord watch`: daily scores of live replies, and alarms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.terminal import figure_text, show, table

if TYPE_CHECKING:
    from accord.live import DayRow, MonitoringReport


@command("watch")
def watch(
    days: Annotated[int, typer.Option("--days", min=1, max=366, help="Number of days.")] = 14,
    labels: Annotated[int, typer.Option("--label-next", min=0, help="Number of replies to suggest for labeling.")] = 5,
    fail: Annotated[bool, typer.Option("--fail-on-alarm", help="Exit with code 3 if there is a new alarm.")] = False,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show mean scores of live replies by system and day, check finished days, and send alarms to the webhook."""
    from functools import partial

    from accord.edges import GateFailed
    from accord.live import post_alarms, raise_alarms, report, send_alarms

    with open_project(config_file, settings) as project:
        config = project.config.monitoring
        new = raise_alarms(project.store, config.false_alarm_rate)
        result = {**report(project.store, days, labels=labels), "new_alarms": len(new)}
        show(result, as_json, lambda result: _report_text(cast("MonitoringReport", result)))
        if config.webhook is not None:
            send_alarms(project.store, partial(post_alarms, config.webhook))
        if fail and new:
            raise GateFailed(f"{len(new)} new alarms: {new[0].message}")


def _report_text(report: MonitoringReport) -> str:
    if not report["days"]:
        return "no live scores in these days; start one of: accord serve, accord follow LOG --out scores.jsonl"
    by_day = sorted(report["days"], key=lambda row: row["day"])
    numbers = {name: str(number) for number, name in enumerate(dict.fromkeys(row["evaluator"] for row in by_day), 1)}
    rows = [
        [
            row["system"],
            row["day"],
            numbers[row["evaluator"]],
            str(row["replies"]),
            _conversations_text(row),
            figure_text(row["mean"], row["low"], row["high"]),
            str(sum(row["unscored"].values())),
            str(row["warned"]),
        ]
        for row in report["days"]
    ]
    header = ["system", "day", "evaluator", "replies", "conversations", "mean", "unscored", "warned"]
    lines = [table(header, rows), "", *(f"evaluator {number}: {name}" for name, number in numbers.items())]
    for change in report["evaluator_changes"]:
        number = numbers[change["evaluator"]]
        lines.append(f"{change['system']}: evaluator {number} from {change['day']} on; a step may be due to the change")
    if report["alarms"]:
        lines += ["", *(f"alarm: {alarm['message']}" for alarm in report["alarms"])]
    if report["label_next"]:
        lines += ["", "label next (highest variance):"]
        lines += [
            f"  {reply['conversation']} turn {reply['turn']}: {reply['score']:.2f}, variance {reply['variance']:.2f}"
            for reply in report["label_next"]
        ]
    return "\n".join(lines)


def _conversations_text(row: DayRow) -> str:
    low, high = row["conversations_low"], row["conversations_high"]
    return str(row["conversations"]) if low == high else f"about {row['conversations']} [{low}, {high}]"
