"""Answer models of the papers, registered when this module is imported, as by its entry point.

`svr` is a support vector regression. `gated` and `concat` are forms of curves. `grid` is LLM-RUBRIC's network with
settings from the paper's grid, of which `network: {search: N}` tries N programs. `users` is the network with a last
layer for each user (footnote 26).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from accord.learning.answer_models.curves import CurveAnswers, CurveSettings, Floats, Indices
from accord.learning.answer_models.network.answers import (
    NetworkAnswers,
    NetworkSettings,
)
from accord.learning.answer_models.registry import AnswerModelSettings, answer_models
from accord.statistics import INNER_FOLDS
from accord_papers.variants.experts import Experts
from accord_papers.variants.support_vectors import SupportVectorAnswers

if TYPE_CHECKING:
    from accord.learning.answer_models.contract import AnswerModel
    from accord.learning.answer_models.network.training import Sheets

PROGRAMS = 64
"""Number of programs in the paper's grid."""


class ExpertAnswers(CurveAnswers):
    """Ordered probit of MoE-Concat or MoE-CIU."""

    form_type = Experts

    def learn_form(
        self, X: Floats, mean: Floats, weight: Floats, fold: Indices, group: Indices
    ) -> tuple[Experts, Floats]:
        """Train the embeddings on T rated texts; also return (T,) held-out predictions."""
        own = self.settings
        return Experts.learn(X, mean, weight, fold, self.ends, own.form == "gated", own.loss, own.seed)


class SearchedNetworkAnswers(NetworkAnswers):
    """LLM-RUBRIC's network with sizes, batch, rate and epochs of the grid's best cell over inner folds.

    Args:
        settings: Settings of the network; `search` is the number of programs to try, cheapest first.
        name: Name of the answer model.
    """

    def __init__(self, settings: NetworkSettings, name: str) -> None:
        super().__init__(settings)
        self.name = name

    def choose_settings(self, sheets: Sheets, fold: Indices) -> None:
        """Set the settings of the best cell."""
        from accord_papers.variants.grid import Grid, search

        folds, own = [fold != each for each in range(INNER_FOLDS)], self.settings
        best = search(self.shape_, sheets, folds, Grid(), own.seed, most=own.search)[0]
        self.shape_ = replace(self.shape_, hidden=best.hidden)
        self.settings = replace(
            own, hidden=best.hidden, batch=best.batch, rate=best.rate, pretrain=best.pretrain, finetune=best.finetune
        )


@answer_models.register("svr")
def _svr(settings: AnswerModelSettings) -> SupportVectorAnswers:
    return SupportVectorAnswers()


@answer_models.register("gated")
def _gated(settings: AnswerModelSettings) -> ExpertAnswers:
    return _experts(settings, "gated")


@answer_models.register("concat")
def _concat(settings: AnswerModelSettings) -> ExpertAnswers:
    return _experts(settings, "concat")


def _experts(settings: AnswerModelSettings, form: str) -> ExpertAnswers:
    return ExpertAnswers(CurveSettings.of({**(settings.curves or {}), "form": form}), settings.ends)


@answer_models.register("grid")
def _grid(settings: AnswerModelSettings) -> SearchedNetworkAnswers:
    given = dict(settings.network or {})
    name = "network" if "search" in given else "grid"
    return SearchedNetworkAnswers(NetworkSettings.of({"like": "paper", "search": PROGRAMS, **given}), name)


@answer_models.register("users")
def _users(settings: AnswerModelSettings) -> AnswerModel:
    from accord_papers.variants.users import UserNetworkAnswers  # needs accord[networks]

    return UserNetworkAnswers(NetworkSettings.of({"like": "paper", **(settings.network or {})}))
