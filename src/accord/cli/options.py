"""Options that several commands share, and opening what they name."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from accord.config import Config
    from accord.llm.budget import Budget
    from accord.llm.model import Judge
    from accord.rubric import Rubric

ConfigFile = Annotated[Path | None, typer.Option("--config", help="The project's file; default accord.yaml here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Format = Annotated[str, typer.Option("--format", help="The conversations' format; `auto` tells by the first row.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="OURS=THEIRS", help="Map a column, e.g. annotator=rater; repeat."),
]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Report and skip bad rows instead of stopping.")]


class Project:
    """What `accord.yaml` names, opened; a context manager that lets go of it again."""

    def __init__(self, config: Config) -> None:
        from accord.rubric import load_rubric
        from accord.store import Store

        self.config = config
        self.rubric: Rubric = load_rubric(config.rubric)
        self.store = Store(config.store)
        self._judge: Judge | None = None

    @property
    def judge(self) -> Judge | None:
        """The configured judge, made when it is first asked for; `None` where the project has none."""
        from accord.pipeline import make_judge

        if self._judge is None and self.config.judge is not None:
            self._judge = make_judge(self.config.judge, self.rubric, self.budget)
        return self._judge

    @cached_property
    def budget(self) -> Budget:
        """What this run may spend, and has spent."""
        from accord.pipeline import make_budget

        return make_budget(self.config)

    def cap(self, **caps: float | None) -> None:
        """Put the command line's caps in place of the file's, where any is given."""
        given = {name: cap for name, cap in caps.items() if cap is not None}
        budget = self.config.budget.model_copy(update=given)
        self.config = self.config.model_copy(update={"budget": budget})

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        from accord.llm.waiting import wait

        try:
            if self._judge is not None:
                wait(self._judge.close())
        finally:
            self.store.close()


def open_project(config_file: Path | None) -> Project:
    """Read the project's file and open its store and rubric."""
    from accord.config import load_config

    return Project(load_config(config_file))


def column_map(pairs: list[str] | None) -> dict[str, str]:
    """`OURS=THEIRS` pairs as a mapping.

    Raises:
        BadInput: A pair has no `=`.
    """
    from accord.errors import BadInput

    for pair in pairs or ():
        if "=" not in pair:
            raise BadInput(f"--columns takes OURS=THEIRS, got {pair!r}; for example annotator=rater_id")
    return dict(pair.split("=", 1) for pair in pairs or ())
