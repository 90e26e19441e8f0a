"""The style sheet, the font and the icons of all pages."""

from __future__ import annotations

import base64
from functools import cache
from importlib.resources import files

from markupsafe import Markup

STYLE = files("accord.charts").joinpath("look", "style.css").read_text(encoding="utf-8")
"""Style sheet of pages and charts."""
FONT = "inter.woff2"
"""File of the font, in the folder `look`."""


def look_file(name: str) -> bytes:
    """Return a file of the look: the style sheet or the font."""
    return files("accord.charts").joinpath("look", name).read_bytes()


@cache
def style_with_font() -> str:
    """Return the style sheet with the font inside, for a page that is one file."""
    content = base64.b64encode(look_file(FONT)).decode()
    return STYLE.replace(f"url({FONT})", f"url(data:font/woff2;base64,{content})")


@cache
def icon(name: str) -> Markup:
    """Return an icon as SVG; screen readers skip it, so a text follows it.

    Raises:
        KeyError: The sprite has no icon of this name; `tools/make_look.py` lists them.
    """
    return Markup(f'<svg class="icon" viewBox="0 0 24 24" aria-hidden="true">{_sprite()[name]}</svg>')


@cache
def _sprite() -> dict[str, str]:
    lines = look_file("icons.svg").decode().splitlines()
    symbols = [line for line in lines if line.startswith("<symbol")]
    return {line.split('"')[1]: line.partition(">")[2].removesuffix("</symbol>") for line in symbols}
