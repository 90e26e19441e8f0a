"""Out-of-fold work that is done once: what `fit`, `compare` and `report` compute is kept in the store's cache.

The key is a hash of everything that can change a prediction: the evidence, every label and its group, the question, the
folds, the evaluator's settings, the code that learns and the libraries under it. Whatever of these is another gives
another key, so that nothing stale is ever read. Sources that learn are never kept: what they are told by models may
grow; nor are heads of other packages, whose code is not known here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import astuple
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

from accord.evidence import EvidenceTable
from accord.learning import Evaluator, Head, System, learns, make_head
from accord.statistics import Split
from accord.store import ComputedCache, Store
from accord.values import Labels, Question, content_hash

_CODE = ("values", "statistics", "evidence", "models", "methods", "learning")
_LIBRARIES = ("numpy", "scipy", "scikit-learn", "jax", "jaxlib", "optax")
_ARRAYS = ("probabilities", "value", "anybody", "scored", "band", "strangers")


FEW = 50_000
"""Up to so many ratings, linear algebra is quicker on one core than on several that wait for each other."""


@contextmanager
def calm(ratings: int) -> Iterator[None]:
    """One core for the linear algebra of few ratings."""
    import scipy.linalg  # noqa: F401 - brings a library of its own, which can only be held once it is loaded
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas") if ratings <= FEW else nullcontext():
        yield


@cache
def code_digest() -> str:
    """A digest of the code that turns evidence and labels into predictions, and of the libraries it calls."""
    found = hashlib.sha256()
    for package in _CODE:
        for path in sorted(files("accord").joinpath(package).rglob("*.py")):  # type: ignore[attr-defined]
            found.update(str(path.name).encode() + b"\0" + path.read_bytes())
    return "s256:" + found.hexdigest() + " ".join(f" {name} {_version(name)}" for name in _LIBRARIES)


def _version(library: str) -> str:
    try:
        return version(library)
    except PackageNotFoundError:
        return "none"


def settings_of(evaluator: Evaluator) -> list[Any] | None:
    """All settings that can change what an evaluator learns from given evidence; `None` where it is not kept."""
    if any(map(learns, evaluator.sources)) or not type(evaluator.head).__module__.startswith("accord."):
        return None
    parts = [[source.name, source.settings.model_dump(mode="json")] for source in evaluator.sources]
    chosen = {name: list(values) for name, values in evaluator.choose.items()}
    return [parts, evaluator.head_name, evaluator.head.settings(), chosen, evaluator.seed]


class Kept:
    """What was computed from one table of evidence and one set of labels, kept in a store.

    Called with a name, settings and the work, it gives the predictions that are kept, or does the work and keeps it
    (`accord.validation.Keep`).

    Args:
        store: Holds it.
        evidence: That is learned from.
        labels: All that learning may look at, with their groups.
        question: That is predicted.
        splits: The folds; none for what is learned from everything.
    """

    def __init__(
        self, store: Store, evidence: EvidenceTable, labels: Labels, question: Question, splits: Sequence[Split] = ()
    ) -> None:
        self._store = ComputedCache(store)
        self._given = (evidence, labels, question)
        sides = [[sorted(split.train), sorted(split.test)] for split in splits]
        self._about = [
            _evidence(evidence), _labels(labels), question.model_dump(mode="json"), sides, code_digest(),
        ]  # fmt: skip

    def key(self, about: Any) -> str:
        """Where something with these settings is kept."""
        return content_hash([about, *self._about], default=str)

    def __call__(self, name: str, about: Any, work: Callable[[], System]) -> System:
        """The predictions of that name: kept ones, or what the work gives."""
        found = self.get(name, about)
        if found is None:
            found = work()
            self.put(found, about)
        return found

    def get(self, name: str, about: Any) -> System | None:
        """Predictions that are kept; `None` without settings, or where there are none."""
        found = None if about is None else self._store.get(self.key(["predictions", about]))
        if found is None:
            return None
        content, arrays = found
        reasons, choices = content["reasons"], content["choices"]
        return System(name, **{each: arrays[each] for each in _ARRAYS}, reasons=reasons, choices=choices)

    def put(self, system: System, about: Any) -> None:
        """Keep predictions, where there are settings to keep them under."""
        if about is not None:
            arrays = {each: getattr(system, each) for each in _ARRAYS}
            content = {"reasons": dict(system.reasons), "choices": dict(system.choices)}
            self._store.add(self.key(["predictions", about]), system.name, content, arrays)

    def rows(self, about: Any, work: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
        """Rows of JSON that follow from all of it: kept ones, or what the work gives."""
        key = self.key(["rows", about])
        found = self._store.get(key)
        if found is not None:
            return list(found[0]["rows"])
        done = work()
        self._store.add(key, "rows", {"rows": done}, {})
        return done

    def fitted(self, evaluator: Evaluator, work: Callable[[], Evaluator]) -> Evaluator:
        """The evaluator after learning from all of it: as it is kept, or what the work gives."""
        evidence, labels, question = self._given
        about = settings_of(evaluator)
        if about is None:
            return work()
        key = self.key(["learned", about])
        found = self._store.get(key)
        if found is not None:
            card, arrays = found
            head: Head = make_head(evaluator.head_name, question, card["settings"])
            return evaluator.with_head(head.restore(card["learned"], arrays), evidence, labels)
        done = work()
        learned, state = done.head.state()
        self._store.add(key, evaluator.name, {"settings": done.head.settings(), "learned": learned}, state)
        return done


def _evidence(table: EvidenceTable) -> str:
    """A digest of everything in a table of evidence that a head can see."""
    found = hashlib.sha256(
        content_hash(
            [
                [list(target) for target in table.targets],
                [astuple(column) for column in table.columns],
                sorted((str(target), target.turn is None, name, why) for (target, name), why in table.absences.items()),
                sorted((str(target), target.turn is None, name) for target, name in table.versions.items()),
                [_words(table.metadata.get(target, {})) for target in table.targets],
            ],
            default=str,
        ).encode()
    )
    for array in (table.values, table.present):
        found.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    return "s256:" + found.hexdigest()


def _words(metadata: Mapping[str, Any]) -> dict[str, str | int | float]:
    """The entries that groups can be made by; others hold whole files."""
    return {name: value for name, value in metadata.items() if isinstance(value, str | int | float)}


_DIGESTS: WeakKeyDictionary[Labels, str] = WeakKeyDictionary()


def _labels(labels: Labels) -> str:
    """A digest of labels in their order, with the group of each."""
    if labels not in _DIGESTS:
        rows = [
            [each.target, each.question, each.annotator, each.value, each.time, each.wording, each.against,
             labels.group_of(each.target)]
            for each in labels
        ]  # fmt: skip
        _DIGESTS[labels] = content_hash(rows, default=str)
    return _DIGESTS[labels]
