"""The shape of the code, counted: how far a method, a preset or a kind of value leaks out of the place it belongs to.

    python benchmarks/architecture.py [--baseline DIR] [--json OUT]

Only text is read, nothing is imported. DIR is the `src` of another checkout; its figures stand beside ours, counted by
the same rules in the same run. Files that a count is about are listed under the table, and in the JSON.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from harness import Row, options, table, write

ROOT = Path(__file__).parents[1]
SIXTH = Path("examples") / "sixth_source.py"
METHODS = {
    "in_context": r"in[-_]context|InContext|adoror",
    "learned_rubric": r"learned[-_]rubric|LearnedRubric|rubicon",
    "issues": r"(methods|accord|evaluators)\.issues|\b(?-i:Issues)[(\]|\n, ]",
    "mixture": r"mixture|\bmoe\b",
}
"""How a method is named in code and texts; of `issues` its package and its class: issues are also a record."""
OWN_PLACES = {
    "in_context": ("methods/", "evaluators/"),
    "learned_rubric": ("methods/", "evaluators/"),
    "issues": ("methods/", "evaluators/", "issues/"),
    "mixture": ("learning/", "evaluators/"),
}
"""Where each may be named, beside the presets; `evaluators/` and `issues/` are where they lay in 0.1."""
PRESETS = ("learning/presets.py", "methods/__init__.py")
SMALL, SHOWN = 60, 30
"""A short file's most lines; the most places that are printed, where the JSON holds all."""
ROOTS = {"Source", "Head", "Evaluator", "BaseEvaluator"}
"""What the classes that `isinstance` should not ask for descend from."""
NAMED = {
    "calibration", "mixture", "issues", "learned-rubric", "in-context", "label-free", "rubric", "metrics", "likelihood",
    "meaning",
}  # fmt: skip
"""Names of presets and sources."""
JSON_METHODS = {"to_json", "describe"}
Counted = Mapping[str, int | float | list[str] | None]


@dataclass(frozen=True)
class File:
    """One file of Python: its path inside the package, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Parsed."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All of the tree, gone through once."""
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """The first folder, or the file's own name."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        """As it is imported."""
        parts = self.path.removesuffix("i").removesuffix(".py").split("/")
        return ".".join(["accord", *(part for part in parts if part != "__init__")])

    def imports(self) -> Iterator[tuple[ast.ImportFrom | ast.Import, str]]:
        """Every import of this product's modules."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.level == 1:  # of a package's list of names
                yield node, ".".join(filter(None, (self.module, node.module)))
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "accord":
                yield node, str(node.module)
            elif isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names if alias.name.startswith("accord."))

    def functions(self) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
        """Every function, and whether it is a method."""
        methods = {id(inner) for each in self.nodes if isinstance(each, ast.ClassDef) for inner in each.body}
        for node in self.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield node, id(node) in methods


def read(folder: Path) -> list[File]:
    """The package's files, lists of names included; `folder` is `src`, or the package."""
    package = folder / "accord" if (folder / "accord").is_dir() else folder
    paths = sorted([*package.rglob("*.py"), *package.rglob("__init__.pyi")])
    if not paths:
        raise SystemExit(f"no Python under {folder}; name a checkout's src")
    return [File(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


# --- what is counted ----------------------------------------------------------------------------------------------


def naming(method: str, files: Sequence[File]) -> list[str]:
    """Files outside a method's own place whose text names it."""
    said, own = re.compile(METHODS[method], re.IGNORECASE), (*OWN_PLACES[method], *PRESETS)
    return [each.path for each in files if not each.path.startswith(own) and said.search(each.text)]


def of_evaluators(files: Sequence[File]) -> list[str]:
    """`isinstance` checks, outside where they live, of a class that descends from a source, a head or an evaluator."""
    bases = {
        node.name: {_last(base) for base in node.bases}
        for each in files
        for node in each.nodes
        if isinstance(node, ast.ClassDef)
    }
    asked = set(ROOTS)
    while more := {name for name, above in bases.items() if above & asked} - asked:
        asked |= more
    return [
        f"{each.path}:{node.lineno} {name}"
        for each in files
        if each.package not in {"learning", "evaluators"}
        for node in each.nodes
        if isinstance(node, ast.Call) and _last(node.func) == "isinstance"
        for name in sorted({_last(inner) for inner in ast.walk(node.args[1])} & asked)
    ]


def by_name(files: Sequence[File]) -> list[str]:
    """Comparisons with the name of a preset or a source, outside presets and the settings of a project."""
    exempt = {"learning/presets.py", "project/config.py", "config.py"}
    constants = {
        target.id: str(node.value.value)
        for each in files
        for node in each.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }
    found = []
    for each in files:
        for node in each.nodes if each.path not in exempt else ():
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                sides = (node.left, *node.comparators)
                said = {s.value if isinstance(s, ast.Constant) else constants.get(_last(s), "") for s in sides}
                found += [f"{each.path}:{node.lineno} {name}" for name in sorted(NAMED & {str(one) for one in said})]
    return found


def reaching_past(files: Sequence[File]) -> list[str]:
    """Imports, by another package, of a module behind a package's own list of names."""
    return [
        f"{each.path}:{node.lineno} {name}"
        for each in files
        for node, name in each.imports()
        if len(name.split(".")) > 2 and name.split(".")[1] != each.package
    ]


def untyped_dicts(files: Sequence[File]) -> list[str]:
    """Functions, but for `to_json` and `describe`, that return `dict[str, Any]` or a name for it."""
    named = {"dict[str, Any]"} | {
        target.id
        for each in files
        for node in each.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "dict[str, Any]"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        f"{each.path}:{node.lineno} {node.name}"
        for each in files
        for node, _ in each.functions()
        if node.returns is not None and ast.unparse(node.returns) in named and node.name not in JSON_METHODS
    ]


def unannotated(files: Sequence[File]) -> list[str]:
    """Functions whose arguments or result are not all annotated."""
    return [
        f"{each.path}:{node.lineno} {node.name}"
        for each in files
        for node, is_method in each.functions()
        if not _is_annotated(node, is_method)
    ]


def _is_annotated(node: ast.FunctionDef | ast.AsyncFunctionDef, is_method: bool) -> bool:
    given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    if is_method and not any(_last(decorator) == "staticmethod" for decorator in node.decorator_list):
        given = given[1:]
    given += [one for one in (node.args.vararg, node.args.kwarg) if one is not None]
    told = node.returns is not None or (node.name == "__init__" and bool(given))
    return told and all(one.annotation is not None for one in given)


def small_and_lonely(files: Sequence[File]) -> list[str]:
    """Short files that one other file imports: they could be part of it."""
    known = {each.module: each for each in files if not each.path.endswith(".pyi")}
    importers: dict[str, set[str]] = {name: set() for name in known}
    for each in files:
        for node, name in each.imports():
            inner = {f"{name}.{alias.name}" for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
            for module in ({name} | inner) & set(known):
                importers[module].add(each.path)
    return [
        f"{each.path} ({_length(each)} lines, by {next(iter(importers[each.module]))})"
        for each in files
        if not each.path.endswith(("__init__.py", "__init__.pyi", "__main__.py"))
        and _length(each) < SMALL
        and len(importers[each.module] - {each.path}) == 1
    ]


def ceremony(files: Iterable[File]) -> int:
    """Lines of imports and of `__all__`."""
    lines = 0
    for each in files:
        for node in each.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) or (
                isinstance(node, ast.Assign) and any(_last(target) == "__all__" for target in node.targets)
            ):
                lines += (node.end_lineno or node.lineno) - node.lineno + 1
    return lines


def _last(node: ast.AST) -> str:
    """The last name of a name, an attribute, a call or a subscript."""
    if isinstance(node, ast.Call):
        return _last(node.func)
    if isinstance(node, ast.Subscript):
        return _last(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _length(each: File) -> int:
    return each.text.count("\n")


# --- the table ----------------------------------------------------------------------------------------------------

LISTED: Mapping[str, Callable[[Sequence[File]], list[str]]] = {
    **{f"files-naming-{method}": partial(naming, method) for method in METHODS},
    "isinstance-of-evaluator": of_evaluators,
    "method-comparisons": by_name,
    "imports-past-init": reaching_past,
    "dict-any-returns": untyped_dicts,
    "untyped": unannotated,
    "single-importer-dust": small_and_lonely,
}


def measured(folder: Path) -> dict[str, Any]:
    """Every count of a checkout's source, by what it counts; lists where the places are told."""
    files = read(folder)
    total = sum(map(_length, files))
    sizes = Counter[str]()
    for each in files:
        sizes[each.package] += _length(each)
    beside = folder.parent / SIXTH
    return {
        **{what: count(files) for what, count in LISTED.items()},
        "import-share": ceremony(files) / total,
        "sixth-source": len(beside.read_text().splitlines()) if beside.is_file() else None,
        "files": sum(each.path.endswith(".py") for each in files),
        "lines": total,
        **{f"lines-{name}": lines for name, lines in sorted(sizes.items())},
    }


def rows_of(ours: Mapping[str, Any], theirs: Mapping[str, Any] | None) -> list[Row]:
    """A row a count, ours beside the baseline's."""
    rows: list[Row] = []
    for what in dict.fromkeys([*ours, *(theirs or {})]):
        row: Row = {"what": what, "value": _number(ours.get(what))}
        row |= {"baseline": _number(theirs.get(what))} if theirs is not None else {}
        row |= {"places": ours[what]} if isinstance(ours.get(what), list) else {}
        rows.append(row)
    return rows


def _number(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def main() -> None:
    parser = options("architecture", "The shape of the code, counted.")
    parser.add_argument("--baseline", type=Path, help="the `src` of another checkout, counted beside this one's")
    given = parser.parse_args()
    theirs = None if given.baseline is None else measured(given.baseline)
    rows = rows_of(measured(ROOT / "src"), theirs)
    for row in rows:
        if not given.quick and 0 < (row["value"] or 0) <= SHOWN and "places" in row:
            print(f"{row['what']}:", *row["places"], sep="\n  ", end="\n\n")
    print(table(rows, ["what", "value", *(["baseline"] if theirs is not None else [])]))
    write("architecture", rows, given.json)


if __name__ == "__main__":
    main()
