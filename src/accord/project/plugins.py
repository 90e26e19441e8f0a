"""What is plugged in: every registry's names with the first line of what each says of itself."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from accord.evidence import metrics, sources, turn_metrics
from accord.formats import formats
from accord.learning import PRESETS, heads
from accord.methods import rivals, selection_policies, selectors
from accord.values import load_rubric, shipped_rubrics


def list_plugins() -> dict[str, dict[str, str]]:
    """Formats, metrics, sources, heads, policies, selectors, rivals, presets and rubrics: name to one line."""
    return {
        "formats": {name: _first_line(sys.modules[plugin.convert.__module__]) for name, plugin in formats},
        "metrics": {name: _first_line(plugin) for name, plugin in [*metrics, *turn_metrics]},
        "sources": {name: _first_line(plugin) for name, plugin in sources},
        "heads": {name: _first_line(plugin) for name, plugin in heads},
        "selection policies": {name: _first_line(plugin) for name, plugin in selection_policies},
        "selectors": {name: _first_line(plugin) for name, plugin in selectors},
        "rivals": {name: _first_line(plugin) for name, plugin in rivals},
        "presets": {
            name: f"head {about.head} on {', '.join(about.sources) or 'what the project measures'}"
            for name, about in PRESETS.items()
        },
        "rubrics": {name: f"{len(load_rubric(name).questions)} questions" for name in shipped_rubrics()},
    }


def _first_line(plugin: Any) -> str:
    return (inspect.getdoc(plugin) or "").split("\n")[0]
