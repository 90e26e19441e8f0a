"""`accord plugins` and `accord schema`: installed plug-ins, and the JSON Schema of the project file."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from accord.cli.app import command
from accord.cli.options import AsJson
from accord.cli.terminal import show


@command("plugins")
def plugins(as_json: AsJson = False) -> None:
    """List formats, metrics, sources, heads, selectors, rivals, presets and rubrics, each in one line."""
    from accord.project import list_plugins

    show(list_plugins(), as_json, _text)


@command("schema")
def schema() -> None:
    """Print the JSON Schema of accord.yaml."""
    from accord.project import json_schema

    print(json.dumps(json_schema(), indent=1))


def _text(result: Mapping[str, Any]) -> str:
    sections = (
        "\n".join([kind, *(f"  {name:20} {says}" for name, says in found.items())]) for kind, found in result.items()
    )
    return "\n\n".join(sections)
