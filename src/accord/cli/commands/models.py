"""`accord models check`: what an endpoint can really do, and which way to a distribution that leaves."""

from __future__ import annotations

from typing import Annotated

import typer

from accord.cli.app import app, guarded
from accord.cli.options import AsJson
from accord.cli.show import show, table

models = typer.Typer(help="Look at the models that may judge.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(models, name="models")


@models.command("check")
@guarded
def check(
    model: Annotated[str, typer.Argument(help="The model's name at its endpoint.")],
    base_url: Annotated[str | None, typer.Option("--base-url", help="Default OPENAI_BASE_URL.")] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds that one request may take.")] = 60.0,
    as_json: AsJson = False,
) -> None:
    """Try what an endpoint can do, with about eight small requests, and say which way to use."""
    from accord.llm.probing import best_way, probe
    from accord.llm.waiting import wait

    found = wait(probe(model, base_url, timeout=timeout))
    way, reason = best_way(found)
    rows = [{"capability": c.name, "able": c.able, "shown_by": c.shown_by} for c in found]
    show({"model": model, "capabilities": rows, "best_way": way, "reason": reason}, as_json, _text)


def _text(result) -> str:  # type: ignore[no-untyped-def]
    rows = [[c["capability"], "yes" if c["able"] else "no", c["shown_by"]] for c in result["capabilities"]]
    best = f"way: {result['best_way']}" if result["best_way"] else "no way"
    return f"{table(['capability', '', 'shown by'], rows)}\n\n{best} ({result['reason']})"
