"""A verdict as the report shows it: title, uses, rules, next steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from accord.edges import count_of
from accord.results import Ledger

Pages = Mapping[str, tuple[str, str]]
"""Page of the workbench for a command, with the text of its button, by the first words of the command."""
Verdict = Mapping[str, Any]
"""A verdict as JSON (`accord.decisions.Verdict.to_json`, or as stored with an evaluator)."""


def verdict_view(verdict: Verdict) -> dict[str, Any]:
    """Return the parts of a verdict for a template; parts that a verdict of an earlier version lacks are empty."""
    uses, ledger = verdict.get("uses", ()), Ledger.from_json(verdict.get("ledger"))
    return {
        "title": verdict["title"],
        "sentence": _capital(verdict["sentence"]),
        "meaning": verdict.get("meaning") or _capital(verdict["sentence"]),
        "note": ledger["error"].about if "error" in ledger else "",
        "uses": uses,
        "ledger": ledger,
        "rules": _rules_met(verdict.get("checks", ())),
    }


def _rules_met(checks: Sequence[Mapping[str, Any]]) -> str:
    """Return how many of the tested rules are met; empty without any."""
    tested = [rule["is_met"] for rule in checks if rule["is_met"] is not None]
    return f"{sum(map(bool, tested))} of {count_of(len(tested), 'rule')} for all uses met" if tested else ""


def next_steps(actions: Sequence[tuple[str, str]], pages: Pages) -> list[dict[str, str]]:
    """Return each action with its command, or with the page that does the same and its button."""
    steps = []
    for text, command in actions:
        page = next((page for start, page in pages.items() if command.startswith(start)), None)
        address, button = page or ("", "")
        steps.append({"text": text, "command": "" if page else command, "address": address, "button": button})
    return steps


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
