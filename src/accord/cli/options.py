"""Options that several commands share, and opening what they name."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from accord.config import Config
    from accord.models import Budget
    from accord.pipeline import Models
    from accord.values import Rubric

ConfigFile = Annotated[Path | None, typer.Option("--config", help="The project's file; default accord.yaml here.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Format = Annotated[str, typer.Option("--format", help="The conversations' format; `auto` tells by the first row.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", metavar="OURS=THEIRS", help="Map a column, e.g. annotator=rater; repeat."),
]
EvaluatorFolder = Annotated[
    Path | None, typer.Option("--evaluator", help="The fitted evaluator's folder; default: where fit puts it.")
]
Annotator = Annotated[str | None, typer.Option("--annotator", help="Score as this person would.")]
RowsOut = typer.Option("--out", "-o", help="Append a row a reply here, as JSON lines.")
IsWatched = Annotated[bool, typer.Option("--watch/--no-watch", help="Add up scores in the store, and raise alarms.")]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Report and skip bad rows instead of stopping.")]


MaxRequests = Annotated[int | None, typer.Option("--max-requests", help="Stop before the next request.")]
MaxTokens = Annotated[int | None, typer.Option("--max-tokens", help="Stop before tokens pass this.")]
MaxMoney = Annotated[float | None, typer.Option("--max-money", help="Stop before money passes this.")]


RUBRIC_FILE = "rubric.yaml"
"""In an evaluator's folder: the rubric that it learned."""


class Project:
    """What `accord.yaml` names, opened; a context manager that lets go of it again."""

    def __init__(self, config: Config) -> None:
        from accord.store import Store
        from accord.values import load_rubric

        self.config = config
        self.rubric: Rubric = load_rubric(config.rubric)
        self.store = Store(config.store)
        self._models: Models | None = None

    @property
    def models(self) -> Models:
        """The configured models, opened when they are first asked for."""
        from accord.pipeline import make_models

        if self._models is None:
            self._models = make_models(self.config, self.rubric, self.budget)
        return self._models

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
        try:
            if self._models is not None:
                self._models.close()
        finally:
            self.store.close()


def open_to_score(config_file: Path | None, evaluator: Path | None) -> tuple[Project, Path]:
    """The project, and the folder of the evaluator to score with; a rubric that lies there is the one that is asked."""
    from accord.config import EvaluatorConfig, load_config
    from accord.learning import Issues, LearnedRubric, method_of

    config = load_config(config_file)
    folder = evaluator or evaluator_folder(config.evaluator.method)
    own = folder / RUBRIC_FILE
    method = method_of(folder)
    if method == LearnedRubric.method and own.is_file():
        config = config.model_copy(update={"rubric": str(own)})
    if method == Issues.method and config.evaluator.method != method:
        config = config.model_copy(update={"evaluator": EvaluatorConfig(method=method)})  # its evidence is more
    return Project(config), folder


def open_project(config_file: Path | None) -> Project:
    """Read the project's file and open its store and rubric."""
    from accord.config import load_config

    return Project(load_config(config_file))


def evaluator_folder(method: str) -> Path:
    """Where `fit` puts an evaluator, and `score` looks for it, unless told otherwise."""
    return Path("evaluators") / method


def column_map(pairs: list[str] | None) -> dict[str, str]:
    """`OURS=THEIRS` pairs as a mapping.

    Raises:
        BadInput: A pair has no `=`.
    """
    from accord.values import BadInput

    for pair in pairs or ():
        if "=" not in pair:
            raise BadInput(f"--columns takes OURS=THEIRS, got {pair!r}; for example annotator=rater_id")
    return dict(pair.split("=", 1) for pair in pairs or ())
