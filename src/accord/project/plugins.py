"""Registered plug-ins with one-line descriptions."""

from __future__ import annotations

import inspect
from typing import Any

from accord.evidence import metrics, sources, turn_metrics
from accord.formats import formats
from accord.learning import PRESETS, heads
from accord.methods import rivals, selection_policies, selectors
from accord.values import load_rubric, shipped_rubrics


def list_plugins() -> dict[str, dict[str, str]]:
    """Return the description of every format, metric, source, head, policy, selector, rival, preset and rubric."""
    return {
        "formats": {name: _first_line(plugin.convert) for name, plugin in formats},
        "metrics": {name: _first_line(plugin) for name, plugin in [*metrics, *turn_metrics]},
        "sources": {name: _first_line(plugin) for name, plugin in sources},
        "heads": {name: _first_line(plugin) for name, plugin in heads},
        "selection policies": {name: _first_line(plugin) for name, plugin in selection_policies},
        "selectors": {name: _first_line(plugin) for name, plugin in selectors},
        "rivals": {name: _first_line(plugin) for name, plugin in rivals},
        "presets": {
            name: f"head {about.head} on {', '.join(about.sources) or 'the evidence of the project'}"
            for name, about in PRESETS.items()
        },
        "rubrics": {name: f"{len(load_rubric(name).questions)} questions" for name in shipped_rubrics()},
    }


def _first_line(plugin: Any) -> str:
    return (inspect.getdoc(plugin) or "").split("\n")[0]
