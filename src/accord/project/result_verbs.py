"""Verbs of `Project` about finished results: the report, the gate, and a run of all steps.

The package of these results stands below this one, so it is imported by its name when a verb is called
(docs/decisions/0064-verbs-of-results.md).
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from accord.edges import BadInput, GateFailed
from accord.formats import tables_of
from accord.values import dump_rubric

if TYPE_CHECKING:
    from accord.project.project import Project
    from accord.project.results import Fitted


class ResultVerbs:
    """The report, the gate and the run of a project."""

    def report(self, path: str | Path = "report.html", fitted: Fitted | None = None, **about: Any) -> Path:
        """Write the report of an evaluator, and return its path; see `accord.report.write_report`.

        Args:
            path: HTML file to write.
            fitted: Result of `fit`; by default the evaluator in use is fitted again.
            **about: `about`, `name` and `curve_draws`.

        Raises:
            BadInput: There are no ratings, or too few.
        """
        written: Path = _results().write_report(self, path, fitted, **about)
        return written

    def gate(
        self,
        min_agreement: float | None = None,
        min_mean: float | None = None,
        max_unscored: float = 0.0,
        min_within: float | None = None,
        training: bool = False,
    ) -> list[Any]:
        """Check conditions on the latest comparison and the latest scores; see `accord.report.check_gate`.

        Returns:
            The checks, all of which passed.

        Raises:
            GateFailed: A check failed; the message names each.
            BadInput: No condition is given, a limit is out of range, or there is no run to check.
        """
        project = cast("Project", self)
        question = project.question
        scale = question.scale if question.scale.is_ordered and not question.compares else None
        checks: list[Any] = _results().check_gate(
            project, min_agreement, min_mean, max_unscored, min_within, project.config.synthetic, training, scale
        )
        if failed := [str(check) for check in checks if not check.passed]:
            raise GateFailed(f"{len(failed)} of {len(checks)} conditions not met: {'; '.join(failed)}")
        return checks

    def run(self, sources: Any, out: str | Path = "accord-run", **options: Any) -> Any:
        """Import, judge, compare, fit, score and report into a folder that is a project of its own, as `accord run`.

        The rubric is inferred from the labels unless the settings name one.

        Args:
            sources: A file, a data frame, a list of dicts, or a list of such sources: conversations and labels.
            out: Output folder: new, empty, or of an earlier run. It gets its own store.
            **options: `format`, `columns`, `skip_bad_rows` and `options` of `accord.report.run_project`.

        Returns:
            An `accord.report.RunResult`.

        Raises:
            BadInput: A source cannot be read, there are no or too few ratings, or the folder holds other files.
        """
        project, results, folder = cast("Project", self), _results(), Path(out)
        if project.given:
            raise BadInput(
                f"models given to Project ({', '.join(project.given)}) are not used by a run, which opens a project of "
                "its own. Set them under models, or call import_, judge, compare, fit, score and report"
            )
        names_rubric = "rubric" in project.config.model_fields_set or project.keeps_rubric
        options.setdefault("options", results.RunOptions(infers=not names_rubric))
        with TemporaryDirectory(prefix="accord-") as temporary:
            rubric = Path(temporary) / "rubric.yaml"
            rubric.write_text(dump_rubric(project.rubric), encoding="utf-8")
            settings = {
                "store": f"sqlite:///{folder / 'accord.db'}",
                **({"rubric": str(rubric)} if names_rubric else {}),
            }
            config = project.config.model_copy(update=settings)
            return results.run_project(config, tables_of(sources), folder, **options)


def _results() -> Any:
    return import_module("accord.report")
