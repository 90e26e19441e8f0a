"""The page that describes the service: its OpenAPI description as HTML that needs no script and no other host."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from markupsafe import Markup, escape


def described(openapi: Mapping[str, Any]) -> str:
    """The page."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["shape"] = _shape
    environment.filters["coded"] = _coded
    environment.filters["as_json"] = lambda value: json.dumps(value, indent=1, ensure_ascii=False)
    page = files("accord.service").joinpath("page.html").read_text(encoding="utf-8")
    return environment.from_string(page).render(api=openapi)


def _coded(text: str) -> Markup:
    """A text, escaped, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(escape(text))))


def _shape(schema: Mapping[str, Any]) -> str:
    """What a field may be, in words."""
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " or ".join(_shape(each) for each in schema["anyOf"])
    kind = schema.get("type", "anything")
    named = " or ".join(kind) if isinstance(kind, list) else str(kind)
    inner = f" of {_shape(schema['items'])}s" if "items" in schema else ""
    return named + inner
