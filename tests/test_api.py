"""The users' API: signatures as in docs/api.txt, and a runnable example and described arguments for each name."""

from __future__ import annotations

import difflib
import doctest
import gc
import importlib.util
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import accord
from accord.edges import BadInput
from accord.testing import sample_project

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]


@cache
def reference() -> Any:
    """The module that lists the names."""
    spec = importlib.util.spec_from_file_location("api_reference", ROOT / "tools" / "api_reference.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["api_reference"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.defaults
def test_signatures_are_those_of_the_file() -> None:
    written = (ROOT / "docs" / "api.txt").read_text(encoding="utf-8").splitlines()
    changes = [line for line in difflib.ndiff(written, list(reference().lines())) if line.startswith(("- ", "+ "))]
    assert not changes, (
        "the users' API changed:\n"
        + "\n".join(changes)
        + "\nIf this is intended, run `make docs` and add a line to CHANGELOG.md; name the replacement of a removed name."
    )


def test_api_holds_the_names_of_the_package() -> None:
    paths = [name.path for name in reference().names()]
    assert len(paths) == len(set(paths)) < 100
    assert {name.name for name in reference().names() if name.package == "accord"} == set(accord.__all__)


@cache
def examples_in(module: str) -> dict[str, list[doctest.Example]]:
    """Return the examples of a module by dotted name, as pytest collects them."""
    found = doctest.DocTestFinder(exclude_empty=False).find(sys.modules[module], module)
    return {each.name: each.examples for each in found}


def where(name: Any) -> tuple[str, str]:
    """Return the module and the dotted name under which doctest finds a name; of a constant, its class or its module."""
    thing = name.thing
    if isinstance(thing, str):
        return "accord.version", "accord.version"
    if not (inspect.isclass(thing) or inspect.isfunction(thing)):
        thing = type(thing)
    return thing.__module__, f"{thing.__module__}.{thing.__qualname__}"


def test_each_name_has_an_example_that_runs() -> None:
    without, skipped = [], []
    for name in reference().names():
        module, dotted = where(name)
        importlib.import_module(module)
        found = examples_in(module).get(dotted, [])
        without += [name.path] if not found else []
        skipped += [name.path for each in found if doctest.SKIP in each.options]
    assert not without, f"add an example (>>>) to the docstring of: {', '.join(without)}"
    assert not skipped, f"examples run; remove +SKIP from: {', '.join(skipped)}"


def documented() -> Iterator[tuple[str, Callable[..., Any], str]]:
    """Yield each callable of the API with its path and its text."""
    for name in reference().names():
        if inspect.isclass(name.thing):
            if not getattr(name.thing, "_is_protocol", False):
                yield name.path, name.thing, reference().description(name)
            for each in reference().members(name):
                if each.is_call:
                    yield f"{name.path}.{each.name}", each.value, str(each.value.__doc__)
        elif inspect.isfunction(name.thing):
            yield name.path, name.thing, str(name.thing.__doc__)


def test_calls_with_three_arguments_describe_them() -> None:
    wrong = []
    for path, call, text in documented():
        try:
            taken = [each for each in inspect.signature(call).parameters if each not in {"self", "cls"}]
        except ValueError:  # an exception without a constructor of its own
            continue
        if len(taken) >= 3:
            missing = [
                each for each in taken if not re.search(rf"^ *\*{{0,2}}(\w+, )*{each}(, \w+)*: ", text, flags=re.M)
            ]
            wrong += [f"{path}: {', '.join(missing)}"] if missing else []
    assert not wrong, "describe these arguments under Args or Attributes:\n" + "\n".join(wrong)


def test_each_name_has_a_text() -> None:
    wrong = [name.path for name in reference().names() if not reference().description(name).strip()]
    assert not wrong, f"without a text: {', '.join(wrong)}"


def test_sample_project_removes_its_folder() -> None:
    with sample_project(2, seed=3) as project:
        folder = project.config.folder
        assert project.config.seed == 3 and project.store.count_conversations() == 2
        assert (folder / "accord.yaml").is_file()
    del project
    gc.collect()
    assert not folder.exists()
    with pytest.raises(BadInput, match="unknown key 'seeds'"):
        sample_project(seeds=3)


def test_example_with_an_unknown_name_is_an_error() -> None:
    """The page imports what an example takes from its module, so that readers can run it."""
    text = ">>> len(Labels([]))\n0"
    assert ">>> from accord import Labels" in reference().markdown(text, "accord.values.annotation")
    with pytest.raises(AssertionError, match="uses probes"):
        reference().markdown(">>> probes()", "accord.testing.contracts")


def test_api_target_says_if_there_is_no_tag(tmp_path: Path) -> None:
    """`make api` of a copy without history neither fails nor compares with nothing."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "ready").touch()
    done = subprocess.run(
        ["make", "-o", ".venv/ready", "api", "TAG="],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": "/usr/bin:/bin"},
    )
    assert done.stdout == "There is no tag to compare the API with; name a commit: make api TAG=COMMIT\n"
