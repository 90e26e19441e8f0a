"""A page from a template of this room: every text is escaped, the look is shared, nothing is loaded from elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.resources import files
from typing import Any


def page(name: str, content: Mapping[str, Any]) -> str:
    """The page as HTML. Every text that came from outside is escaped by the template."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = number
    environment.filters["percent"] = percent
    room = files("accord.report")
    style = (room / "style.css").read_text(encoding="utf-8")
    return environment.from_string((room / name).read_text(encoding="utf-8")).render(style=style, **content)


def number(value: float | None, digits: int = 3) -> str:
    """A number as a page writes it; a dash where it is undefined."""
    return "–" if value is None else f"{value:.{digits}f}".replace("-", "−")


def percent(share: float | None) -> str:
    """A share in per cent; a dash where it is undefined."""
    return "–" if share is None else f"{100 * share:.0f} %"
