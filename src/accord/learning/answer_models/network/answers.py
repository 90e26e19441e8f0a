"""Answer model `network` (LLM-RUBRIC, section 2): its settings, its tasks and its learned state.

Each question is a task: an annotator's answers to other questions are learned together with the main rating.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from accord.edges import BadInput
from accord.evidence import Arrays, EvidenceTable, Ratings
from accord.learning.answer_models.contract import AnswerModel, Floats, card_names, inner_folds
from accord.learning.answer_models.network.formula import (
    Indices,
    Inputs,
    NetworkShape,
    Parameters,
    inputs,
    latent_answers,
    predict,
)
from accord.statistics import INNER_FOLDS
from accord.values import Labels, Target, Value

if TYPE_CHECKING:
    from accord.learning.answer_models.network.training import Schedule, Sheets, TrainingJob


MOST_OPTIONS = 10


Sheet = tuple[Target, str]
"""Target and annotator."""
TrainingRun = tuple[NDArray[np.bool_], float, int]
"""Mask of the sheets to learn from, pooling strength, and number of the member."""


def answers_to(
    rated: Ratings, labels: Labels, beyond: Sequence[Sheet] = ()
) -> tuple[NDArray[np.intp], tuple[int, ...]]:
    """Return every question's answers on the sheets of the main ratings, followed by answers on the sheets `beyond`.

    A question is a task if at least two of its options were chosen. Its options are the chosen options, or at most
    `MOST_OPTIONS` ranges of options. The k-th answer of an annotator to a question about a text belongs to sheet k.

    Returns:
        (n + beyond, Q) index of the chosen option, the main question first, -1 for no answer; and the number of options
        of each question.
    """
    sheets = _other_answers(rated, labels, beyond)
    chosen: dict[str, set[Value]] = defaultdict(set)
    for sheet in sheets:
        for question, value in sheet.items():
            chosen[question].add(value)
    tasks = {question: _places(values) for question, values in sorted(chosen.items()) if len(values) > 1}
    others = [[tasks[q][sheet[q]] if q in sheet else -1 for q in tasks] for sheet in sheets]
    main_answers = np.append(rated.answer, np.full(len(beyond), -1))
    answers = np.column_stack([main_answers, np.array(others, dtype=np.intp).reshape(len(sheets), len(tasks))])
    return answers.astype(np.intp), (len(rated.options), *(max(place.values()) + 1 for place in tasks.values()))


def _other_answers(rated: Ratings, labels: Labels, beyond: Sequence[Sheet]) -> list[dict[str, Value]]:
    """Return the answers to other questions on each sheet, by question."""
    main = rated.labels[0].question if len(rated.labels) else ""
    given: dict[Sheet, dict[str, list[Value]]] = defaultdict(lambda: defaultdict(list))
    for label in labels:
        if label.value is not None and label.question != main:
            given[label.target, label.annotator][label.question].append(label.value)
    sheets: list[dict[str, Value]] = []
    counts: Counter[Sheet] = Counter()
    for key in [*((label.target, label.annotator) for label in rated.labels), *beyond]:
        number = counts[key]
        sheets.append({name: values[number] for name, values in given[key].items() if number < len(values)})
        counts[key] += 1
    return sheets


def sheets_beyond(features: EvidenceTable, rated: Ratings, labels: Labels) -> list[Sheet]:
    """Return the sheets with evidence and without a main rating (eq. 1 sums over them too)."""
    main = {label.question for label in rated.labels}
    known = {features.targets[row] for row in np.flatnonzero(features.present.any(axis=1))}
    answers = Counter(
        (label.target, label.annotator, label.question) for label in labels
        if label.question not in main and label.value is not None and label.against is None and label.target in known
    )  # fmt: skip
    longest: dict[Sheet, int] = {}
    for (target, annotator, _), count in answers.items():
        longest[target, annotator] = max(count, longest.get((target, annotator), 0))
    mains = Counter((label.target, label.annotator) for label in rated.labels)
    return [sheet for sheet, count in longest.items() for _ in range(count - mains[sheet])]


def _in_blocks(owner: Indices, people: int) -> Indices:
    """Return (n,) the block of each sheet: its annotator's, or for -1 one of further blocks of about the same size."""
    width = max(int(np.bincount(owner[owner >= 0], minlength=1).max()), 1)
    number = np.cumsum(owner < 0) - 1
    return np.where(owner < 0, people + number // width, owner)


def _places(values: set[Value]) -> dict[Value, int]:
    """Return the index of each value: numbers by size, words alphabetically, at most `MOST_OPTIONS` indices."""
    ordered = sorted(values, key=lambda value: (isinstance(value, str), value))
    count = min(len(ordered), MOST_OPTIONS)
    return {value: place * count // len(ordered) for place, value in enumerate(ordered)}


POOLING = (30.0, 100.0, 300.0)
"""Candidate strengths of partial pooling."""


TIED = 0.1
"""Weight of the unquantized log likelihood for `answer: latent`."""


@dataclass(frozen=True)
class NetworkSettings:
    """Architecture and training of a network. The defaults are the regularized variant; `PAPER` holds the paper's.

    Attributes:
        reads: `distributions` (the paper's x) or `expected` answers, standardized.
        head: `softmax` (eq. 5) or `ordinal` (appendix B).
        hidden: h₁ and h₂.
        batch: Largest number of rows per step; None takes all.
        rate: Adam's step size.
        pretrain: Epochs on all questions.
        finetune: Epochs on the main question.
        pretrain_shared: Epochs of `pretrain`, the first ones, in which annotators' own weights stay at 0 (footnote 8).
        early_stopping: True to stop each phase where its held-out loss on inner folds is lowest; `pretrain` and
            `finetune` are then the largest numbers of epochs (footnote 11).
        pooling: Strength that pulls each annotator's weights towards the shared ones; None chooses among `POOLING` on
            inner folds, 0 disables it.
        decay: Strength that pulls the shared weights towards 0.
        dropout: Share of the questions that a training step hides; above 0 the network tolerates missing questions.
        members: Number of networks with different seeds whose distributions are averaged.
        seed: Random seed of the first network.
        unquantized: For `head: ordinal`: weight of the unquantized log likelihood, which ties the latent answer to the
            scale (footnote 28).
        search: For the paper's network: choose sizes, batch, rate and epochs from the paper's grid on inner folds,
            limited to this number of its 64 programs, cheapest first; None uses the settings as they are. The search is
            in accord-papers.
    """

    reads: str = "expected"
    head: str = "ordinal"
    hidden: tuple[int, int] = (16, 16)
    batch: int | None = None
    rate: float = 0.02
    pretrain: int = 0
    finetune: int = 100
    pretrain_shared: int = 0
    early_stopping: bool = False
    pooling: float | None = None
    decay: float = 8.0
    dropout: float = 0.0
    members: int = 5
    seed: int = 0
    unquantized: float = 0.0
    search: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any], is_tied: bool = False) -> NetworkSettings:
        """Return settings from a mapping; `like` names the defaults to start from (`regularised` or `paper`).

        With `is_tied` the latent answer is tied to the scale by default.

        Raises:
            BadInput: There is no such setting, or a value is invalid.
        """
        rest = {name: value for name, value in given.items() if name != "like"}
        like, unknown = given.get("like", "regularised"), sorted(set(rest) - set(cls.__dataclass_fields__))
        if unknown or like not in ("regularised", "paper"):
            allowed = ", ".join(["like", *cls.__dataclass_fields__])
            what = f"unknown network setting: {', '.join(unknown)}" if unknown else "like is regularised or paper"
            raise BadInput(f"{what}; allowed: {allowed}")
        defaults = PAPER if like == "paper" else cls()
        hidden = rest.get("hidden", defaults.hidden)
        if not isinstance(hidden, list | tuple) or len(hidden) != 2 or not all(map(_is_count, hidden)):
            raise BadInput(f"hidden must be two numbers of units from 1, got {hidden!r}")
        tied = {"unquantized": TIED} if is_tied else {}
        result = replace(defaults, **{**tied, **rest, "hidden": tuple(hidden)})
        result._check()
        return result

    def _check(self) -> None:
        """Check the values."""
        if self.reads not in ("expected", "distributions") or self.head not in ("ordinal", "softmax"):
            raise BadInput("reads must be 'expected' or 'distributions', and head must be 'ordinal' or 'softmax'")
        for name in ("batch", "members", "search"):
            value = getattr(self, name)
            if not _is_count(value) and (value is not None or name == "members"):
                raise BadInput(f"{name} of a network must be a number from 1, got {value!r}")
        if isinstance(self.unquantized, bool) or not isinstance(self.unquantized, int | float) or not (
            0 <= self.unquantized <= 1
        ):  # fmt: skip
            raise BadInput(f"unquantized must be a number from 0 to 1, got {self.unquantized!r}")
        if self.unquantized > 0 and self.head != "ordinal":
            raise BadInput("unquantized needs head: ordinal, which has a latent answer")
        self._check_epochs()
        as_in_the_grid = self.pooling == 0 and self.decay == 0 and self.dropout == 0
        if self.search is not None and not as_in_the_grid:
            raise BadInput("search needs like: paper, because it searches the paper's grid")

    def _check_epochs(self) -> None:
        for name in ("pretrain", "finetune", "pretrain_shared"):
            epochs = getattr(self, name)
            if not _is_count(epochs) and (isinstance(epochs, bool) or epochs != 0):
                raise BadInput(f"{name} must be a number of epochs from 0, got {epochs!r}")
        if self.pretrain + self.finetune < 1:
            raise BadInput("pretrain and finetune are both 0; a network needs at least one epoch")
        if self.pretrain_shared > self.pretrain:
            raise BadInput(
                f"pretrain_shared must be at most pretrain ({self.pretrain}), of which it is a part, got "
                f"{self.pretrain_shared}"
            )
        if not isinstance(self.early_stopping, bool):
            raise BadInput(f"early_stopping must be true or false, got {self.early_stopping!r}")
        if self.early_stopping and self.search is not None:
            raise BadInput("early_stopping and search both choose the number of epochs; leave out one of them")


PAPER = NetworkSettings(
    "distributions", "softmax", (50, 50), 64, 0.001, pretrain=10, finetune=20, pooling=0.0, decay=0.0, members=1
)
"""The paper's network (eq. 1 to 5); its sizes, rate and epochs are one cell of the paper's grid."""


def _is_count(value: object) -> bool:
    """Return True for a whole number from 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


class NetworkAnswers(AnswerModel):
    """Distributions by an ensemble of networks."""

    name = "network"

    def __init__(self, settings: NetworkSettings) -> None:
        self.settings = settings
        self.trust_ = 1.0

    def prepare(self, evidence: EvidenceTable) -> EvidenceTable:
        """Return answer blocks unchanged without mass outside the options, or as expected answers."""
        return evidence.expected() if self.settings.reads == "expected" else evidence

    def fit_predict(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> Floats:
        """Learn all questions that the annotators answered together with a rating, then the main question."""
        known, _ = self.cross_predict(lambda: self, features, rated, labels)
        self.fit(features, rated, labels)
        return known

    def cross_predict(
        self, make: Callable[[], AnswerModel], features: EvidenceTable, rated: Ratings, labels: Labels
    ) -> tuple[Floats, Floats]:
        """Return held-out distributions at the pooling chosen on inner folds, in one compiled program.

        `make` is not used. The sheets stay in memory until `fit` trains the members on all sheets.
        """
        from accord.learning.answer_models.network.training import Sheets

        with_mask = self.settings.dropout > 0
        # Without pretraining only main answers are used.
        beyond = sheets_beyond(features, rated, labels) if self.settings.pretrain else []
        rows = np.append(rated.row, features.rows_of(target for target, _ in beyond))
        self.inputs_ = Inputs.fit(features.take(np.unique(rated.row)), with_mask)
        answers, options = answers_to(rated, labels, beyond)
        self.people_, self.options_ = np.unique(rated.annotator.astype(str)), rated.options
        # Annotators without a main rating, such as users with thumbs, have no weights of their own (footnote 26).
        owner = self._place_of([*rated.annotator, *(name for _, name in beyond)])
        values, present = self.inputs_.of(features.take(rows))
        sheets = Sheets(values, present, self.inputs_.group, _in_blocks(owner, len(self.people_)), answers)
        width = values.shape[1] + present.shape[1]
        self.shape_ = NetworkShape(width, self.settings.hidden, options, len(self.people_), self.settings.head)
        self._sheets = sheets
        fold = self._folds(rated, labels, beyond)
        self.choose_settings(sheets, fold)
        if self.settings.early_stopping:
            self._stop_early(sheets, fold)
        return self._choose(sheets, rated, fold)

    def choose_settings(self, sheets: Sheets, fold: Indices) -> None:
        """Choose settings on inner folds; a network without a search keeps its own.

        Args:
            sheets: Training sheets.
            fold: Inner fold of each sheet; -1 for one that is always learned from.
        """

    def _folds(self, rated: Ratings, labels: Labels, beyond: Sequence[Sheet]) -> Indices:
        """Return the inner fold of each sheet; -1 for a sheet of an unrated group, which is always learned from."""
        fold = inner_folds(rated, self.settings.seed)
        several = len(set(rated.group)) > 1
        place = dict(zip(rated.group if several else rated.text, fold, strict=True))
        others = [place.get(labels.group_of(target) if several else str(target), -1) for target, _ in beyond]
        return np.append(fold, np.array(others, dtype=np.intp))

    def operations(self, features: EvidenceTable, rated: Ratings) -> float:
        """Return the approximate number of operations that learning takes."""
        own, (first, second) = self.settings, self.settings.hidden
        _, labels = np.unique(rated.annotator.astype(str), return_counts=True)
        weights = (2 * len(features.columns) + 1) * first + (first + 1) * second + (second + 1) * len(rated.options)
        laid_out = len(labels) * int(labels.max())  # every annotator's rows are padded to the longest
        strengths = len(POOLING) if own.pooling is None else 1
        networks = (strengths + 2 * own.early_stopping) * INNER_FOLDS + own.members
        return float(networks * (own.pretrain + own.finetune) * weights * (6 * laid_out + 10 * len(labels)))

    def _stop_early(self, sheets: Sheets, fold: Indices) -> None:
        """Set the numbers of epochs with the lowest held-out losses."""
        from accord.learning.answer_models.network.training import early_stops

        own = self.settings
        strength = POOLING[len(POOLING) // 2] if own.pooling is None else own.pooling
        jobs = self._jobs([(fold != each, strength, 0) for each in range(INNER_FOLDS)])
        pretrain, finetune = early_stops(self.shape_, sheets, self._terms(), jobs)
        shared = min(own.pretrain_shared, pretrain)
        self.settings = replace(own, pretrain=pretrain, finetune=finetune, pretrain_shared=shared)

    def _choose(self, sheets: Sheets, rated: Ratings, fold: Indices) -> tuple[Floats, Floats]:
        """Choose the pooling strength with the lowest log loss on inner folds.

        Returns:
            (n, K) held-out distributions at that strength, for each rating's annotator and for a new one.
        """
        folds = [fold != each for each in range(INNER_FOLDS)]
        strengths = POOLING if self.settings.pooling is None else (self.settings.pooling,)
        nets = self._networks(sheets, [(rows, strength, 0) for strength in strengths for rows in folds])
        shares = [self._held_out(sheets, nets[i * INNER_FOLDS :], fold) for i in range(len(strengths))]
        best = int(np.argmin([rated.log_loss(known) for known, _ in shares]))
        self.pooling_ = float(strengths[best])
        return shares[best]

    def fit(self, features: EvidenceTable, rated: Ratings, labels: Labels) -> None:
        """Train the members on all sheets."""
        if not hasattr(self, "_sheets"):
            self.cross_predict(lambda: self, features, rated, labels)
        everything = np.ones(len(self._sheets.annotator), dtype=bool)
        runs = [(everything, self.pooling_, member) for member in range(self.settings.members)]
        self.members_ = self._networks(self._sheets, runs)
        del self._sheets

    def _networks(self, sheets: Sheets, runs: Sequence[TrainingRun]) -> list[Parameters]:
        from accord.learning.answer_models.network.training import train

        return train(self.shape_, sheets, self._terms(), self._jobs(runs))

    def _jobs(self, runs: Sequence[TrainingRun]) -> list[TrainingJob]:
        from accord.learning.answer_models.network.training import TrainingJob

        own = self.settings
        return [TrainingJob(rows, own.rate, pooling, own.decay, own.seed + member) for rows, pooling, member in runs]

    def _terms(self) -> Schedule:
        from accord.learning.answer_models.network.training import Schedule

        own = self.settings
        # Trials and members share one compiled program for any pooling strength.
        penalised = own.decay > 0 or own.pooling is None or own.pooling > 0
        return Schedule(
            own.pretrain, own.finetune, own.batch, own.dropout, penalised, own.unquantized, own.pretrain_shared
        )

    def _held_out(self, sheets: Sheets, nets: Sequence[Parameters], fold: Indices) -> tuple[Floats, Floats]:
        """Return (n, K) each rating predicted by the network that did not learn from its fold.

        The first array is for the rating's annotator, the second for a new one.
        """
        rated = sheets.answers[:, 0] >= 0
        x, fold = inputs(np, sheets.values[rated], sheets.present[rated], sheets.group), fold[rated]
        who = sheets.annotator[rated]
        known, new = np.zeros((2, len(x), self.shape_.options[0]))
        for each in range(INNER_FOLDS):
            rows = fold == each
            known[rows] = predict(self.shape_, [nets[each]], x[rows], who[rows])
            new[rows] = predict(self.shape_, [nets[each]], x[rows], np.full(rows.sum(), -1))
        return known, new

    def distributions(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n, K) the distribution of each row for its annotator.

        In a new domain it is mixed with the distribution of a new annotator.
        """
        x = inputs(np, *self.inputs_.of(features), self.inputs_.group)
        own = predict(self.shape_, self.members_, x, self._place_of(annotators))
        if self.trust_ == 1:
            return own
        anybody = predict(self.shape_, self.members_, x, np.full(len(x), -1, dtype=np.intp))
        return np.asarray(self.trust_ * own + (1 - self.trust_) * anybody)

    def latent(self, features: EvidenceTable, annotators: Sequence[str | None]) -> Floats:
        """Return (n,) the latent answer; between options it is interpolated, beyond the ends extrapolated."""
        x = inputs(np, *self.inputs_.of(features), self.inputs_.group)
        own, anybody = (
            latent_answers(self.shape_, self.members_, x, who)
            for who in (self._place_of(annotators), np.full(len(x), -1, dtype=np.intp))
        )
        steps = self.trust_ * own + (1 - self.trust_) * anybody
        low = np.clip(np.floor(steps), 0, len(self.options_) - 2).astype(np.intp)
        return np.asarray(self.options_[low] + (steps - low) * np.diff(self.options_)[low])

    def _place_of(self, annotators: Sequence[str | None]) -> Indices:
        """Return (n,) the index of each annotator; -1 for one without a main rating."""
        place = {str(name): index for index, name in enumerate(self.people_)}
        return np.array([-1 if name is None else place.get(str(name), -1) for name in annotators], dtype=np.intp)

    @property
    def has_latent(self) -> bool:
        """True for an ordinal head."""
        return self.settings.head == "ordinal"

    @property
    def annotators(self) -> list[str]:
        """Annotators whose labels were learned from."""
        return [str(name) for name in self.people_]

    def in_new_domain(self, domain_correlation: float) -> NetworkAnswers:
        """Return the model for another domain.

        It mixes an annotator's own distribution, weighted by `domain_correlation`, with a new annotator's distribution.
        """
        moved = copy.copy(self)
        moved.trust_ = domain_correlation
        return moved

    def describe(self) -> dict[str, Any]:
        """Return the settings, the chosen pooling, and the distance of annotators' weights from the shared ones."""
        own = [np.sqrt(sum(_squares(m[layer]["own"]) for layer in sorted(m))) for m in self.members_]
        return {
            "network": {**asdict(self.settings), "pooling": self.pooling_},
            "questions": len(self.shape_.options),
            "distance": dict(zip(self.annotators, np.mean(own, axis=0).tolist(), strict=True)),
        }

    def state(self) -> tuple[dict[str, Any], Arrays]:
        """Return the learned state as JSON and arrays."""
        card = {
            "pooling": self.pooling_,
            "trust": self.trust_,
            "people": self.annotators,
            "shape": asdict(self.shape_),
            "settings": asdict(self.settings),
        }
        arrays: dict[str, NDArray[Any]] = {
            f"{layer}.{part}": np.stack([np.asarray(member[layer][part]) for member in self.members_])
            for layer, parts in self.members_[0].items()
            for part in parts
        }
        return card, {**arrays, **self.inputs_.arrays(), "options": self.options_}

    def restore(self, card: Mapping[str, Any], arrays: Arrays) -> Self:
        """Restore the learned state from `state`."""
        self.pooling_, self.trust_ = card["pooling"], card["trust"]
        self.settings = NetworkSettings.of(card["settings"])
        self.people_ = np.array(card_names(card, "people"), dtype=object)
        about = card["shape"]
        self.shape_ = NetworkShape(**{**about, "hidden": tuple(about["hidden"]), "options": tuple(about["options"])})
        self.inputs_, self.options_ = Inputs.from_arrays(arrays), arrays.get("options", np.zeros(0))
        layers = ("W1", "W2", "V", *(("cuts",) if self.shape_.head == "ordinal" else ()))
        count = len(arrays["W1.shared"])
        self.members_ = [
            {layer: {part: arrays[f"{layer}.{part}"][i] for part in ("shared", "own")} for layer in layers}
            for i in range(count)
        ]
        return self


def _squares(own: Any) -> Floats:
    """Return (annotators,) the sum of squares of each annotator's weights of a layer, (annotators, ...)."""
    return np.asarray((np.ascontiguousarray(own, dtype=float).reshape(len(own), -1) ** 2).sum(axis=1))
