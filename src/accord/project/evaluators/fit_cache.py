"""Cache of predictions and fitted heads in the store, shared by `fit`, `compare` and `report`.

The key is a hash of everything that can change a prediction: evidence, labels and their groups, question, folds,
settings of the evaluator, the code that learns, and the versions of its libraries. Evaluators whose sources learn are
not cached, because their models' answers may change; nor are heads of other packages, whose code is not part of the
key.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import astuple
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from accord.evidence import EvidenceTable
from accord.learning import PREDICTED, Evaluator, Experiment, Predictions, learns, make_head
from accord.store import ComputedCache, Store
from accord.values import Labels, content_hash

_CODE = ("values", "statistics", "evidence", "models", "methods", "learning")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "jax", "jaxlib", "optax")
FEW_RATINGS = 50_000
"""Up to this number of ratings, linear algebra is faster on one core than on several."""


@contextmanager
def single_threaded(ratings: int) -> Iterator[None]:
    """Restrict linear algebra to one core if there are few ratings."""
    import scipy.linalg  # noqa: F401 - loads a library of its own that must be limited too
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas") if ratings <= FEW_RATINGS else nullcontext():
        yield


@cache
def code_digest() -> str:
    """Return a digest of the code that turns evidence and labels into predictions, and of its libraries."""
    digest = hashlib.sha256()
    for package in _CODE:
        for path in sorted(files("accord").joinpath(package).rglob("*.py")):  # type: ignore[attr-defined]
            digest.update(str(path.name).encode() + b"\0" + path.read_bytes())
    return "s256:" + digest.hexdigest() + " ".join(f" {name} {_version(name)}" for name in _LIBRARIES)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def cache_key(evaluator: Evaluator) -> list[Any] | None:
    """Return all settings that affect learning from given evidence, or `None` if the evaluator is not cached."""
    if any(map(learns, evaluator.sources)) or not type(evaluator.head).__module__.startswith("accord."):
        return None
    sources = [[source.name, source.settings.model_dump(mode="json")] for source in evaluator.sources]
    chosen = {name: list(values) for name, values in evaluator.choose.items()}
    return [sources, evaluator.head_name, evaluator.head.settings(), chosen, evaluator.seed]


class FitCache:
    """Results that follow from an experiment, kept in a store (`accord.learning.PredictionCache`)."""

    def __init__(self, store: Store) -> None:
        self._computed = ComputedCache(store)

    def get(self, experiment: Experiment, key: Any) -> Predictions | None:
        """Return cached predictions, or None."""
        entry = self._computed.get(_hash(experiment, ["predictions", key]))
        if entry is None:
            return None
        content, arrays = entry
        reasons, choices = content["reasons"], content["choices"]
        return Predictions("", **{name: arrays[name] for name in PREDICTED}, reasons=reasons, choices=choices)

    def put(self, experiment: Experiment, key: Any, predictions: Predictions) -> None:
        """Store predictions."""
        arrays = {name: getattr(predictions, name) for name in PREDICTED}
        content = {"reasons": dict(predictions.reasons), "choices": dict(predictions.choices)}
        self._computed.add(_hash(experiment, ["predictions", key]), predictions.name, content, arrays)

    def rows(self, experiment: Experiment, key: Any, work: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Return cached JSON rows, or compute and store them."""
        name = _hash(experiment, ["rows", key])
        entry = self._computed.get(name)
        if entry is not None:
            return list(entry[0]["rows"])
        rows = work()
        self._computed.add(name, "rows", {"rows": rows}, {})
        return rows

    def fitted(self, experiment: Experiment, evaluator: Evaluator, work: Callable[[], Evaluator]) -> Evaluator:
        """Return the evaluator fitted on all labels of an experiment, from the cache or from `work`."""
        settings = cache_key(evaluator)
        if settings is None:
            return work()
        name = _hash(experiment, ["fitted", settings], with_splits=False)
        entry = self._computed.get(name)
        if entry is not None:
            card, arrays = entry
            head = make_head(evaluator.head_name, experiment.question, card["settings"])
            return evaluator.with_head(head.restore(card["learned"], arrays), experiment.evidence, experiment.labels)
        fitted = work()
        learned, state = fitted.head.state()
        self._computed.add(name, evaluator.name, {"settings": fitted.head.settings(), "learned": learned}, state)
        return fitted


def _hash(experiment: Experiment, key: Any, with_splits: bool = True) -> str:
    """Return the name of a result in the cache."""
    splits = [[sorted(split.train), sorted(split.test)] for split in experiment.splits] if with_splits else []
    parts = [
        key, _evidence_digest(experiment.evidence), _labels_digest(experiment.labels),
        experiment.question.model_dump(mode="json"), splits, code_digest(),
    ]  # fmt: skip
    return content_hash(parts, default=str)


_EVIDENCE_DIGESTS: dict[int, tuple[EvidenceTable, str]] = {}
_LABEL_DIGESTS: WeakKeyDictionary[Labels, str] = WeakKeyDictionary()


def _evidence_digest(table: EvidenceTable) -> str:
    """Return a digest of everything in a table that a head can use; digests of the latest tables are cached."""
    known = _EVIDENCE_DIGESTS.get(id(table))
    if known is not None and known[0] is table:
        return known[1]
    digest = hashlib.sha256(
        content_hash(
            [
                [list(target) for target in table.targets],
                [astuple(column) for column in table.columns],
                sorted((str(target), target.turn is None, name, why) for (target, name), why in table.absences.items()),
                sorted((str(target), target.turn is None, name) for target, name in table.versions.items()),
                [_attributes(table.metadata.get(target, {})) for target in table.targets],
            ],
            default=str,
        ).encode()
    )
    for array in (table.values, table.present):
        digest.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    if len(_EVIDENCE_DIGESTS) >= 8:
        _EVIDENCE_DIGESTS.pop(next(iter(_EVIDENCE_DIGESTS)))
    _EVIDENCE_DIGESTS[id(table)] = table, "s256:" + digest.hexdigest()
    return _EVIDENCE_DIGESTS[id(table)][1]


def _attributes(metadata: Mapping[str, Any]) -> dict[str, str | int | float]:
    """Return the metadata entries that can define groups; other entries may hold whole files."""
    return {name: value for name, value in metadata.items() if isinstance(value, str | int | float)}


def _labels_digest(labels: Labels) -> str:
    """Return a digest of labels in their order, with the group of each."""
    if labels not in _LABEL_DIGESTS:
        rows = [
            [label.target, label.question, label.annotator, label.value, label.time, label.wording, label.against,
             labels.group_of(label.target)]
            for label in labels
        ]  # fmt: skip
        _LABEL_DIGESTS[labels] = content_hash(rows, default=str)
    return _LABEL_DIGESTS[labels]
