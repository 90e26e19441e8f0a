"""Head `auto` and its presets: calibrated predictions of each annotator's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput, UnknownName
from accord.evidence import Arrays, Column, EvidenceTable, Ratings
from accord.learning.answer_models.contract import (
    AnswerModel,
    column_attributions,
    inner_folds,
    judge_columns,
    known_ratings,
    missing_reason,
    part_arrays,
    part_attributions,
    prefixed,
)
from accord.learning.answer_models.curves import CurveAnswers
from accord.learning.answer_models.registry import (
    ANSWER_MODELS,
    AnswerModelSettings,
    check_answer_model,
    make_answer_model,
)
from accord.learning.answer_models.simple import FEWEST_LABELS
from accord.learning.answer_models.stacking import CANDIDATES, StackedAnswers, fit_stack, trials_to_json
from accord.learning.calibration.levels import ScaleLevels
from accord.learning.calibration.other_questions import AuxiliaryQuestions
from accord.learning.calibration.shifts import JUDGE_VERSION, GroupShifts
from accord.learning.calibration.training_reference import TrainingReference
from accord.learning.head import Head
from accord.values import POPULATION, Json, Labels, Question, Score, Signature, Unscored, content_hash, score_from
from accord.version import __version__

Floats = NDArray[np.float64]
OPTION, LATENT = "option", "latent"


class Calibration(Head):
    """Predicts the distribution of each annotator's answer from evidence (LLM-RUBRIC).

    Args:
        question: Main question, ordinal, binary or real-valued; a long scale is reduced to a few levels for learning.
        answer_model: `mixed` is a linear mixed model by REML under an ordered probit, `network` the paper's network or
            its regularized variant, `curves` a sum of one curve per metric, `judge` the judge's answer to the question,
            `column` the column that correlates best with the ratings, `constant` the frequency of each option, or one
            of `SIMPLE_MODELS` or `answer_models`; `auto` averages several by their error on inner folds.
        own_slopes: For `mixed`: True to let annotators weight the evidence differently, False for offsets only.
        threshold_spread: For `mixed`: prior standard deviation of an annotator's thresholds around the common ones, in
            units of the latent scale.
        domain_correlation: Correlation between an annotator's habits here and in a new domain, 0 to 1; used by
            `in_new_domain` and `adapt` only.
        network: For `network`: settings by name (`NetworkSettings`); `like: paper` starts from the paper's.
        curves: For `curves`: settings by name (`CurveSettings`).
        coverage: Share of new ratings that a score's conformal band should contain, between 0 and 1.
        pooled_annotators: Patterns of annotator names (`user-*`), each of which is treated as a single annotator.
        candidates: For `auto`: names of the models to average; empty takes `CANDIDATES`.
        shift_groups: Attributes of conversations whose groups should have unbiased mean scores: `system`,
            `judge-version`, or a metadata entry. Groups that are biased on inner folds are shifted (footnote 17); an
            empty list shifts none.
        max_seconds: For `auto`: skip a model that is expected to take longer on one core.
        answer: `option` predicts the mean over the options; `latent` the underlying real answer before it is cut into
            options, which may lie beyond the ends of the scale (footnote 28), for `mixed` and an ordinal `network`.
    """

    method = "calibration"

    def __init__(
        self,
        question: Question,
        answer_model: str = "auto",
        own_slopes: bool = True,
        threshold_spread: float = 0.2,
        domain_correlation: float = 0.5,
        network: Mapping[str, Any] | None = None,
        curves: Mapping[str, Any] | None = None,
        coverage: float = 0.9,
        pooled_annotators: Sequence[str] = (),
        candidates: Sequence[str] = (),
        shift_groups: Sequence[str] = ("system", JUDGE_VERSION),
        max_seconds: float = 60.0,
        answer: str = OPTION,
    ) -> None:
        super().__init__(question)
        self.answer_model = answer_model
        self.own_slopes = own_slopes
        self.threshold_spread = threshold_spread
        self.domain_correlation = domain_correlation
        self.network = network
        self.curves = curves
        self.coverage = coverage
        self.pooled_annotators = pooled_annotators
        self.candidates = candidates
        self.shift_groups = shift_groups
        self.max_seconds = max_seconds
        self.answer = answer
        self.answer_model_: AnswerModel | None = None
        self._check()

    def _check(self) -> None:
        """Check the settings."""
        check_answer_model(self.answer_model)
        for setting in ("pooled_annotators", "candidates", "shift_groups"):
            given = getattr(self, setting)
            if isinstance(given, str):
                raise BadInput(f"{setting} must be a list of names, got {given!r}; write [{given!r}]")
            if not isinstance(given, list | tuple) or not all(isinstance(name, str) for name in given):
                raise BadInput(f"{setting} must be a list of names, got {given!r}")
        for name in self.candidates:
            check_answer_model(name, ANSWER_MODELS[1:])
        self._check_numbers()
        if self.answer not in (OPTION, LATENT):
            raise UnknownName("answer", self.answer, (OPTION, LATENT))
        for name in ("curves", "network"):  # finds invalid settings and missing packages
            self._make(name)
        if self.answer == LATENT and (self.answer_model == "auto" or not self._make(self.answer_model).has_latent):
            raise BadInput(
                f"answer: latent needs answer_model: mixed, or network with head: ordinal; got {self.answer_model}"
            )

    def _check_numbers(self) -> None:
        """Check the settings that are numbers."""
        if not 0 <= self.domain_correlation <= 1:
            raise BadInput(f"domain_correlation must be from 0 to 1, got {self.domain_correlation}")
        if not 0 < self.coverage < 1:
            raise BadInput(f"coverage must be between 0 and 1, got {self.coverage}")
        seconds = self.max_seconds
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
            raise BadInput(f"max_seconds must be a number from 0, got {seconds!r}")

    @property
    def starts_without_labels(self) -> bool:
        """True if the answer model is, or with few labels becomes, the judge mean."""
        return self.answer_model in ("auto", "judge-mean") and not self.question.compares

    @property
    def takes_every_sheet(self) -> bool:
        """True if answers to other questions are used for targets without a main rating."""
        return self.answer_model == "auto" or self._make(self.answer_model).uses_other_questions

    @property
    def is_fitted(self) -> bool:
        """True after `fit` or `restore`."""
        return self.answer_model_ is not None

    @property
    def annotators(self) -> list[str]:
        """Sorted names of the annotators that the model learned from; a pooled group counts as a single annotator."""
        return [] if self.answer_model_ is None else self.answer_model_.annotators

    def fit(self, evidence: EvidenceTable, labels: Labels) -> Self:
        """Learn from all labels on the main question with evidence, and from answers to other questions.

        With fewer than `FEWEST_LABELS` labels `auto` is the judge mean; without any it is not calibrated.

        Raises:
            BadInput: There are too few labels for the answer model and no judge's answers, or a label is outside the
                scale.
            MissingExtra: The network was requested and JAX is not installed.
        """
        pooled = self._pool(labels)
        rated = known_ratings(evidence, pooled, self.question, known := self._is_readable(evidence))
        self._check_enough(evidence, len(rated))
        levels = ScaleLevels.fit(rated)
        coarse = levels.coarse(rated)
        auxiliary, table = None, evidence
        if self.takes_every_sheet and len(rated):
            auxiliary, table = AuxiliaryQuestions.learn(evidence, pooled, self.question.id)
        model, held_out, self.trials_ = self._fit_model(table, coarse, pooled)
        fine = levels.fine(held_out[0]), levels.fine(held_out[1])
        shifts, shifted = GroupShifts.learn(self.shift_groups, evidence, rated, fine, inner_folds(coarse))
        raters = rated.annotator
        if self.pooled_annotators:
            raters = known_ratings(evidence, labels, self.question, known).annotator
        reference = TrainingReference.of(
            model.prepare(evidence), rated, levels, shifted, model.annotators, raters, self.coverage
        )
        self.auxiliary_ = auxiliary
        return self._set(model, reference, shifts, domain=None)

    def _check_enough(self, evidence: EvidenceTable, labels: int) -> None:
        """Raise `BadInput` unless the answer model can learn from this number of labels."""
        if labels >= FEWEST_LABELS:
            return
        question = self.question.id
        if self.answer_model not in ("auto", "judge-mean"):
            raise BadInput(
                f"{labels} labels on {question!r} have evidence; {self.answer_model} needs at least {FEWEST_LABELS}. "
                "Import more labels, or use answer_model: auto, which starts from the judge's answers"
            )
        if not judge_columns(evidence).any():
            raise BadInput(
                f"{labels} labels on {question!r} have evidence and no judge answered; at least {FEWEST_LABELS} labels "
                "are needed. Rate more (accord serve), or configure a judge under models: and run accord judge"
            )

    def _fit_model(
        self, evidence: EvidenceTable, rated: Ratings, labels: Labels
    ) -> tuple[AnswerModel, tuple[Floats, Floats], dict[str, dict[str, Any]]]:
        """Return the fitted model, its held-out distributions, and the result of each candidate.

        The held-out distributions (n, K) are for each rating's annotator and for a new one.
        """
        is_judged = bool(judge_columns(evidence).any())
        is_enough = len(rated) >= FEWEST_LABELS and (len(set(rated.group)) > 1 or not is_judged)
        if self.answer_model == "auto" and is_enough:
            has_judge = any(column.question == self.question.id for column in evidence.columns)
            unusable = {"judge": not has_judge, "judge-mean": not is_judged}
            names = [name for name in self.candidates or CANDIDATES if not unusable.get(name, False)]
            make = {name: partial(self._make, name) for name in names}
            model, shares, trials = fit_stack(make, evidence, rated, labels, self.max_seconds)
            return model, shares, trials_to_json(trials)
        model = self._make("judge-mean" if self.answer_model == "auto" else self.answer_model)
        known = model.fit_predict(model.prepare(evidence), rated, labels)
        return model, (known, known), {}

    def _is_readable(self, evidence: EvidenceTable) -> NDArray[np.bool_] | None:
        """Return (n,) True for rows with the evidence that the answer model needs, or `None` if any evidence does."""
        return None if self.answer_model == "auto" else self._make(self.answer_model).is_readable(evidence)

    def _make(self, name: str) -> AnswerModel:
        """Return an unfitted answer model by name."""
        return make_answer_model(name, self._model_settings)

    @property
    def _model_settings(self) -> AnswerModelSettings:
        return AnswerModelSettings(
            self.question, self.own_slopes, self.threshold_spread, self.curves, self.network, self.answer == LATENT
        )

    def _pool(self, labels: Labels) -> Labels:
        """Return the labels with each pooled annotator named by its pattern."""
        if not self.pooled_annotators:
            return labels
        return Labels((replace(label, annotator=self._pooled(label.annotator)) for label in labels), labels.groups)

    def _pooled(self, annotator: str) -> str:
        """Return the first pattern that matches an annotator's name, or the name itself."""
        patterns = self.pooled_annotators
        return next((pattern for pattern in patterns if fnmatchcase(str(annotator), pattern)), annotator)

    @property
    def metadata_names(self) -> tuple[str, ...]:
        """Entries of the metadata by which scores are shifted."""
        return self.shifts_.metadata_names if self.is_fitted else ()

    def in_new_domain(self) -> Calibration:
        """Return this head for another domain without labels."""
        model = self._fitted().in_new_domain(self.domain_correlation)
        shifts = self.shifts_.scaled(self.domain_correlation)
        return copy(self)._set(model, self.reference_, shifts, domain="new")

    def adapt(self, evidence: EvidenceTable, labels: Labels) -> Calibration:
        """Return this head for another domain with a few labels per annotator.

        Adaptation starts from the domain of `fit`, also after an earlier adaptation.

        Raises:
            BadInput: No label on the main question has evidence, the evidence was computed differently from `fit`, or
                the answer model cannot adapt.
        """
        model = self._fitted()
        features = self.features(evidence)
        rated = known_ratings(features, self._pool(labels), self.question, model.is_readable(features))
        if not len(rated):
            raise BadInput(f"no label on {self.question.id!r} has evidence; adapting needs at least one")
        reference = self.reference_
        adapted = model.adapt(self._extended(features), reference.levels.coarse(rated), self.domain_correlation)
        counts = {
            name: reference.counts.get(name, 0) + count for name, count in rated.counts(adapted.annotators).items()
        }
        # The labels of the new domain already determine the mean of its groups.
        return copy(self)._set(adapted, replace(reference, counts=counts), GroupShifts(), domain="adapted")

    def with_ranks_among(self, evidence: EvidenceTable) -> Calibration:
        """Return this head with ranks of metrics taken among these texts; needs no labels.

        Raises:
            BadInput: The answer model is not `curves`, texts are missing, or the evidence was computed differently.
        """
        model, features = self._fitted(), self.features(evidence)
        if not isinstance(model, CurveAnswers):
            raise BadInput(f"ranks are used by answer_model: curves only, got {model.name}")
        if not len(features):
            raise BadInput("no texts to rank metrics among; measure some first")
        return copy(self)._set(model.with_ranks_among(features), self.reference_, self.shifts_, self.domain_)

    def _set(self, model: AnswerModel, reference: TrainingReference, shifts: GroupShifts, domain: str | None) -> Self:
        self.answer_model_, self.reference_, self.shifts_, self.domain_ = model, reference, shifts, domain
        self._made_signature: Signature | None = None
        return self

    def predict_each(self, evidence: EvidenceTable, annotators: Sequence[str | None]) -> list[Score | Unscored]:
        """Return one score per row for that row's annotator; rows without evidence are unscored."""
        features = self.features(evidence)
        if not len(features):
            return []
        speakers = [None if name is None else self._pooled(name) for name in annotators]
        model, reference = self._fitted(), self.reference_
        options = len(reference.options)

        def predict(table: EvidenceTable, rows: NDArray[np.intp]) -> Floats:
            extended, names = self._extended(table), [speakers[row] for row in rows]
            shares, parts = model.explained(extended, names)
            unshifted = reference.levels.fine(shares)
            shares = self.shifts_.apply(table, reference.options, unshifted)
            value = shares @ reference.options
            if self.answer == LATENT:
                value = model.latent(extended, names) + value - unshifted @ reference.options
            return np.concatenate([value[:, None], shares, parts], axis=1)

        predicted = reference.over_missing(features, predict)
        values, distributions = predicted[:, 0].tolist(), predicted[:, 1 : 1 + options]
        attributions = self._attributions(features, speakers, distributions, predicted[:, 1 + options :])
        signature, known = self.signature(), set(self.annotators)
        is_new = np.array([name is None or str(name) not in known for name in speakers], dtype=bool)
        bands, warnings = reference.bands_of(features, distributions, is_new), reference.warnings(features)
        is_readable, notes = model.is_readable(features).tolist(), model.notes(distributions)
        reasons = {} if all(is_readable) else features.reasons()
        scores: list[Score | Unscored] = []
        for row, name in enumerate(speakers):
            target, annotator = features.targets[row], str(name) if name in known else POPULATION
            if not is_readable[row]:
                scores.append(Unscored(target, annotator, missing_reason(reasons, target), signature))
                continue
            band, warning = (float(bands[row, 0]), float(bands[row, 1])), _joined(model.caution, warnings[row])
            shares, parts = distributions[row], tuple(attributions[row])
            score = score_from(target, annotator, reference.options, shares, signature, band, warning, parts)
            if self.answer == LATENT:
                score = replace(score, value=values[row])
            scores.append(replace(score, notes=notes[row]) if notes else score)
        return scores

    def _attributions(
        self, features: EvidenceTable, speakers: Sequence[str | None], distributions: Floats, contributions: Floats
    ) -> list[list[tuple[str, float]]]:
        """Return each row's contributions (n, d) by column, or by part of the evidence if the model has none."""
        if contributions.shape[1]:
            return column_attributions(features, contributions)
        options = self.reference_.options

        def without(table: EvidenceTable, rows: NDArray[np.intp]) -> Floats:
            return np.asarray(self.distributions(table, [speakers[row] for row in rows]) @ options)

        return part_attributions(features, distributions @ options, without)

    def speaker(self, annotator: str | None) -> str | None:
        """Return the annotator, or the pattern of a pooled one.

        Raises:
            UnknownName: No label of the annotator was learned from.
        """
        return super().speaker(None if annotator is None else self._pooled(annotator))

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the distribution of each row for its annotator; `features` are this head's own columns."""
        reference = self.reference_
        shares = reference.levels.fine(self._fitted().distributions(self._extended(features), annotators))
        return self.shifts_.apply(features, reference.options, shares)

    def _extended(self, features: EvidenceTable) -> EvidenceTable:
        """Return this head's columns with the expected answers to other questions."""
        return features if self.auxiliary_ is None else self.auxiliary_.extend(features)

    def features(self, evidence: EvidenceTable) -> EvidenceTable:
        """Return the evidence as this head's own columns, in their order.

        Raises:
            BadInput: A column is missing, or was computed differently from the one that was learned from.
        """
        columns = self.reference_.columns
        are_differences = any(column.centre is not None for column in columns)  # differences of expected answers
        return (evidence.expected() if are_differences else self._fitted().prepare(evidence)).align(columns)

    def signature(self) -> Signature:
        """Return the signature of this head's scores."""
        self.check_fitted()
        if self._made_signature is None:  # cached, because every live reply needs it
            self._made_signature = self._signature()
        return self._made_signature

    def _signature(self) -> Signature:
        models, reference = _parts(self._fitted()), self.reference_
        makers = dict.fromkeys(c.signature for c in reference.columns if c.question is not None)
        judges = dict.fromkeys(maker.partition("|question:")[0] for maker in makers)
        is_mixed, curves = "mixed" in models, self._model_settings.curve_settings
        return Signature.of(
            self.method,
            answer_model="+".join(models),
            question=self.question.id,
            features=len(reference.columns),
            annotators=len(self.annotators),
            labels=sum(reference.counts.values()),
            slopes=("own" if self.own_slopes else "common") if is_mixed else None,
            spread=self.threshold_spread if is_mixed else None,
            form=f"{curves.form},{curves.loss}" if "curves" in models and curves.form != "additive" else None,
            answer=LATENT if self.answer == LATENT else None,
            domain=self.domain_,
            domain_correlation=self.domain_correlation if self.domain_ else None,
            other_questions="+".join(self.auxiliary_.sheets) if self.auxiliary_ else None,
            shift_groups="+".join(self.shifts_.tilts) or None,
            coverage=self.coverage,
            evidence="+".join(judges) or None,
            rubric=content_hash(sorted(makers), length=8) if makers else None,
            version=__version__,
        )

    def describe(self) -> dict[str, Any]:
        """Return the learned state as JSON for reports."""
        learned = self._fitted().describe()
        levels = learned.pop("levels", {})
        annotators = {
            name: {
                "labels": self.reference_.counts.get(name, 0),
                **({"level": levels[name]} if name in levels else {}),
            }
            for name in self.annotators
        }
        return {
            "method": self.method,
            "answer_model": "+".join(_parts(self._fitted())),
            "candidates": dict(self.trials_),
            "signature": str(self.signature()),
            "coverage": self.coverage,
            **self.reference_.bands.describe(),
            "other_questions": dict(self.auxiliary_.sheets) if self.auxiliary_ else {},
            "group_shifts": self.shifts_.to_json(),
            **learned,
            "annotators": annotators,
        }

    def remarks(self) -> list[str]:
        """Return sentences on other questions that were learned from, shifted groups, and bands of few annotators."""
        self.check_fitted()
        few = self.reference_.bands.few_annotators
        return [
            *(self.auxiliary_.lines() if self.auxiliary_ else []),
            *self.shifts_.lines(),
            *([few] if few else []),
        ]

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        model = self._fitted()
        (model_card, model_arrays), (reference, reference_arrays) = model.state(), self.reference_.state()
        auxiliary, auxiliary_arrays = self.auxiliary_.state() if self.auxiliary_ else (None, {})
        card = {
            "reference": reference, "models": list(_parts(model)), "model": model_card, "domain": self.domain_,
            "trials": self.trials_, "shifts": self.shifts_.to_json(), "other_questions": auxiliary,
        }  # fmt: skip
        parts = {"model": model_arrays, "reference": reference_arrays, "other_questions": auxiliary_arrays}
        return card, {key: array for name, arrays in parts.items() for key, array in prefixed(name, arrays).items()}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        model, reference, auxiliary = (part_arrays(name, arrays) for name in ("model", "reference", "other_questions"))
        given = card["other_questions"]
        self.auxiliary_ = None if given is None else AuxiliaryQuestions.restored(given, auxiliary)
        self.trials_ = dict(card["trials"])
        models = {name: self._make(name) for name in card["models"]}
        empty = StackedAnswers(models, card["model"]["weights"]) if len(models) > 1 else next(iter(models.values()))
        restored = empty.restore(card["model"], model)
        shifts = GroupShifts.from_json(card["shifts"])
        return self._set(restored, TrainingReference.restored(card["reference"], reference), shifts, card["domain"])

    @property
    def columns(self) -> tuple[Column, ...] | None:
        """Evidence columns that were learned from; None before `fit`."""
        return None if self.answer_model_ is None else self.reference_.columns

    def seen(self, evidence: EvidenceTable) -> tuple[EvidenceTable, EvidenceTable] | None:
        """Return the evidence of the training texts, and the given evidence as this head's own columns."""
        return self.reference_.texts(), self.features(evidence)

    def chosen(self) -> dict[str, Json]:
        """Return the settings with the answer model, or the candidates, that `auto` chose."""
        model, *others = _parts(self._fitted())
        return {**self.settings(), **({"candidates": [model, *others]} if others else {"answer_model": model})}

    def _fitted(self) -> AnswerModel:
        self.check_fitted()
        assert self.answer_model_ is not None
        return self.answer_model_


def _parts(model: AnswerModel) -> tuple[str, ...]:
    """Return the names of the models that an answer model averages."""
    return tuple(model.parts) if isinstance(model, StackedAnswers) else (model.name,)


def _joined(*warnings: str | None) -> str | None:
    return "; ".join(warning for warning in warnings if warning) or None
