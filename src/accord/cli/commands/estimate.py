"""`accord estimate`: how good each system is on average, from few labels and many scores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from accord.cli.app import command
from accord.cli.options import AsJson, ConfigFile, open_project
from accord.cli.show import show, table


@command("estimate")
def estimate(config_file: ConfigFile = None, as_json: AsJson = False) -> None:
    """Each system's mean rating with a valid interval, and the differences between systems."""
    with open_project(config_file) as project:
        show(project.estimate().to_json(), as_json, _text)


def _text(result: Mapping[str, Any]) -> str:
    rows = [
        [row["system"], str(row["labelled"]), str(row["scored"]),
         f"{row['mean']:.3f} [{row['low']:.2f}, {row['high']:.2f}]",
         f"{row['label_mean']:.3f} [{row['label_low']:.2f}, {row['label_high']:.2f}]", f"{row['worth']:.2f}"]
        for row in result["systems"]
    ]  # fmt: skip
    lines = [table(["system", "labelled", "scored", "labels and scores", "labels alone", "worth"], rows)]
    lines += [
        f"{gap['first']} - {gap['second']}: {gap['difference']:+.3f} [{gap['low']:+.2f}, {gap['high']:+.2f}], "
        f"p = {gap['p_holm']:.3f}"
        for gap in result["differences"]
    ]
    about = "worth: as many times more labels alone would give as short an interval. Valid where the labelled "
    return "\n".join([*lines, "", about + "conversations are a random part of each system's; 95 % intervals"])
