"""Evaluator folders that were edited or damaged: loading and scoring raise AccordError only, and no score is NaN."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scaled
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file
from synthetic_corpus import rated_chats

from accord.edges import AccordError, BadInput
from accord.learning import load_evaluator
from accord.models import memory_models, run
from accord.values import Sample

pytestmark = pytest.mark.attack
CARD, ARRAYS = "evaluator.json", "arrays.safetensors"
HEADS = ["mixed", "curves", "annotator-mean", pytest.param("network", marks=pytest.mark.slow)]
ODD: list[Any] = [
    None, True, False, -1, 0, 1, 10**30, -(10**18), 10**400, 1e308, -0.5, 1.5, 5e-324, "", "x", "a\x1b[31m", "\ud800",
    "x" * 70_000, [], [1], [None], [[1]], ["a", "a"], {}, {"a": 1}, [{}],
]  # fmt: skip
REMOVED = object()
Keys = tuple[str | int, ...]


@pytest.fixture(scope="module", params=HEADS)
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scaled.saved(tmp_path_factory.mktemp("evaluator") / "made", head=request.param)


def places(value: Any, path: Keys = ()) -> Iterator[Keys]:
    """Paths of the values in a card; of a long list, only the first two entries."""
    if path:
        yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value[:2]) if isinstance(value, list) else ()
    for key, inner in entries:
        yield from places(inner, (*path, key))


def changed(card: Any, path: Keys, value: Any) -> Any:
    copy = json.loads(json.dumps(card))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if value is REMOVED:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


def use(folder: Path) -> None:
    """Load an evaluator, score, describe and save it, and check that every number is finite."""
    evaluator = load_evaluator(folder)
    samples = [Sample(chat) for chat in rated_chats(3)[0]]
    for speaker in (None, *evaluator.annotators[:1]):
        scores = run(evaluator.predict(samples, speaker), memory_models())
        json.dumps([score.to_json() for score in scores], allow_nan=False).encode("ascii")
    json.dumps(evaluator.describe(), allow_nan=False)
    evaluator.digest()
    evaluator.in_new_domain().save(folder / "again")


def assert_only_accord_errors(folder: Path) -> None:
    try:
        with np.errstate(all="ignore"):
            use(folder)
    except AccordError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("value", [*ODD, REMOVED], ids=lambda value: repr(value)[:20])
def test_odd_values_in_saved_columns_are_one_error(saved: Path, value: Any, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "m"))
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    columns = [path for path in places(card) if "columns" in path]
    for path in columns:
        (folder / CARD).write_text(json.dumps(changed(card, path, value)), encoding="utf-8")
        assert_only_accord_errors(folder)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutated_cards_raise_only_accord_errors(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    card = json.loads((saved / CARD).read_text(encoding="utf-8"))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(list(places(card))))
        card = changed(card, path, data.draw(st.sampled_from([*ODD, REMOVED])))
    (folder / CARD).write_text(json.dumps(card), encoding="utf-8")
    assert_only_accord_errors(folder)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutated_arrays_raise_only_accord_errors(saved: Path, tmp_path: Path, data: st.DataObject) -> None:
    folder = tmp_path / "m"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(saved, folder)
    arrays = load_file(folder / ARRAYS)
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    odd = np.float64(data.draw(st.sampled_from([np.nan, np.inf, -np.inf, 0, -1, 1e300, 1e30, 5e-324])))
    with np.errstate(all="ignore"):
        changes = [
            array[None], array[:0] if array.ndim else array[None], array[..., :-1] if array.ndim else array[None],
            np.concatenate([array, array]) if array.ndim else array[None],
            array.astype(np.float16 if array.dtype.kind == "f" else np.uint8), np.zeros(array.shape, dtype=bool),
            np.full(array.shape, odd), np.where(np.arange(array.size).reshape(array.shape) == 0, odd, array),
        ]  # fmt: skip
    made = np.ascontiguousarray(changes[data.draw(st.integers(0, len(changes) - 1))])
    save_file({**arrays, name: made}, folder / ARRAYS)
    assert_only_accord_errors(folder)


TREE_CHANGES: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "children in a circle": ("children", lambda array: np.roll(array, 1, axis=0)),
    "children before their parent": ("children", np.zeros_like),
    "a child of two sides": ("children", lambda array: array + [[0, 1]]),
    "children out of range": ("children", lambda array: np.where(array > array[:, ::-1], 10**6, array)),
    "negative children": ("children", lambda array: -array - 1),
    "children as numbers": ("children", lambda array: array.astype(np.float64)),
    **{f"short {name}": (name, lambda array: array[:-1]) for name in ("children", "feature", "threshold", "value")},
    "short fill": ("fill", lambda array: array[:1]),
    "no roots": ("roots", lambda array: array[:0]),
    "negative roots": ("roots", lambda array: array - 10**6),
    "columns out of range": ("feature", lambda array: array + 10**6),
    "wide values": ("value", lambda array: np.hstack([array, array])),
    "infinite threshold": ("threshold", lambda array: np.where(array < np.inf, np.inf, array)),
}


@pytest.fixture(scope="module", params=["trees", "boosting"])
def trees(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return scaled.saved(tmp_path_factory.mktemp("trees") / "made", head=request.param)


@pytest.mark.parametrize("change", TREE_CHANGES)
def test_damaged_trees_are_refused_when_they_are_loaded(trees: Path, tmp_path: Path, change: str) -> None:
    use(trees)
    folder, (name, edit) = Path(shutil.copytree(trees, tmp_path / "m")), TREE_CHANGES[change]
    arrays = load_file(folder / ARRAYS)
    [key] = [key for key in arrays if key.endswith(f"trees.{name}")]
    save_file({**arrays, key: np.ascontiguousarray(edit(arrays[key]))}, folder / ARRAYS)
    with pytest.raises(BadInput, match="holds a damaged evaluator"):
        load_evaluator(folder)


@pytest.mark.parametrize("head", ["trees", "boosting", "ridge", "judge-mean", "mixed", "curves"])
@pytest.mark.parametrize("value", [True, [True], [1], [None], ["a", True], "ann", {"a": 1}], ids=repr)
def test_names_of_annotators_are_texts(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path, head: str, value: Any
) -> None:
    made = tmp_path_factory.getbasetemp() / f"names-{head}"
    if not made.exists():
        scaled.saved(made, head=head)
    folder = Path(shutil.copytree(made, tmp_path / "m"))
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    paths = [path for path in places(card) if path[-1] in ("people", "annotators") and path[0] == "head"]
    assert paths
    for path in paths:
        (folder / CARD).write_text(json.dumps(changed(card, path, value)), encoding="utf-8")
        with pytest.raises(BadInput, match="holds a damaged evaluator"):
            load_evaluator(folder)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [("format", "4", "names no format"), ("format", True, "names no format"), ("seed", 2**64, "evaluator.json: seed"),
     ("name", 7, "evaluator.json: name"), ("level", "universe", "evaluator.json: level"),
     ("sources", [{"name": "bank"}], "evaluator.json: sources.0.settings"), ("other_questions", [1], "evaluator.json: other_questions.0"),
     ("seed", 10**200, "out of range")],
)  # fmt: skip
def test_card_errors_name_the_field(saved: Path, part: str, value: Any, message: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(saved, tmp_path / "m"))
    card = json.loads((folder / CARD).read_text(encoding="utf-8"))
    (folder / CARD).write_text(json.dumps({**card, part: value}), encoding="utf-8")
    with pytest.raises(BadInput, match=message):
        load_evaluator(folder)
