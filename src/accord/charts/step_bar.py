"""Row of steps of which one is reached."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from accord.charts.plot_area import escape_text, tag


def step_bar(names: Sequence[str], current: int, title: str) -> Markup:
    """Draw steps in a row as a list, of which the `current` one and those before it are reached.

    The first step is that nothing is reached, so it is shown only as the current one.
    """
    items = []
    for place, name in enumerate(names):
        if place == current:
            items.append(tag("li", escape_text(name), **({"class_": "reached"} if place else {}), aria_current="step"))
        elif place:
            said = "Reached: " if place < current else "Not reached: "
            text = f"{tag('span', said, class_='visually-hidden')}{escape_text(name)}"
            items.append(tag("li", text, class_="reached" if place < current else "ahead"))
    return Markup(tag("ol", "".join(items), class_="steps", aria_label=title))
