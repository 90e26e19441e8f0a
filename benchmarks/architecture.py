"""Size and structure of the source tree: lines, functions, imports and wording. Figures for review, not limits.

    python benchmarks/architecture.py [--baseline DIR|COMMIT] [--json PATH]

The script reads text and imports nothing from Accord's packages. The figures of the baseline, the `src` folder of
another checkout or a commit, follow the same rules and stand in a second column. `make shape` compares with a tag.

For scale, code lines per function: httpx 12, inspect_ai 15, pydantic_evals 16, scikit-learn 20.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import wording
from harness import Row, checkout, options, table, write

ROOT = Path(__file__).parents[1]
SMALL_FILE, PRINTED_PLACES = 60, 30
MANY_BRANCHES = 15
"""Conditions, loops and handlers above which a function is listed, also those inside expressions."""
PAPERS = Path("packages/accord-papers/src/accord_papers")
"""The package of the papers in a checkout; older checkouts have it in `src/accord/papers`."""
CONTRACTS = {"Source", "Head", "Evaluator", "BaseEvaluator"}
PRESET_NAMES = {
    "default", "mixture", "issues", "learned-rubric", "in-context", "label-free", "rubric", "metrics", "likelihood",
    "meaning",
}  # fmt: skip
JSON_METHODS = {"to_json", "describe"}
LAYOUT_TOKENS = {
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
}  # fmt: skip


@dataclass(frozen=True)
class File:
    """One Python file: its path inside the package and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """All nodes of the syntax tree."""
        return list(ast.walk(self.tree))

    @property
    def package(self) -> str:
        """First folder of the path, or the name of a file at the top."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def module(self) -> str:
        """Dotted name under which the file is imported."""
        parts = self.path.removesuffix("i").removesuffix(".py").split("/")
        return ".".join(["accord", *(part for part in parts if part != "__init__")])

    @property
    def lines(self) -> int:
        """Number of lines."""
        return self.text.count("\n")

    @cached_property
    def code(self) -> set[int]:
        """Numbers of the lines with code: no blank lines, comments, docstrings or imports."""
        lines: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in LAYOUT_TOKENS:
                lines |= set(range(token.start[0], token.end[0] + 1))
        for node in self.nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
                lines -= set(_lines_of(node))
        return lines

    def imports(self) -> Iterator[tuple[ast.ImportFrom | ast.Import, str]]:
        """Yield every import of a module of this product with the module's name."""
        for node in self.nodes:
            if isinstance(node, ast.ImportFrom) and node.level == 1:  # in a package's stub
                yield node, ".".join(filter(None, (self.module, node.module)))
            elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "accord":
                yield node, str(node.module)
            elif isinstance(node, ast.Import):
                yield from ((node, alias.name) for alias in node.names if alias.name.startswith("accord."))


def read_package(folder: Path) -> list[File]:
    """Read all Python files and stubs below `folder`, which is `src` or the package itself."""
    package = folder / "accord" if (folder / "accord").is_dir() else folder
    files = read_files(package)
    if not files:
        raise SystemExit(f"no Python files in {folder}. Name the src folder of a checkout")
    return files


def read_files(package: Path) -> list[File]:
    """Read all Python files and stubs of a package."""
    paths = sorted([*package.rglob("*.py"), *package.rglob("__init__.pyi")])
    return [File(path.relative_to(package).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


# --- counts -------------------------------------------------------------------------------------------------------


def evaluator_type_checks(files: Sequence[File]) -> list[str]:
    """`isinstance` checks, outside `learning` and contract checks, of a class of sources, heads or evaluators."""
    bases = {
        node.name: {_last_name(base) for base in node.bases}
        for file in files
        for node in file.nodes
        if isinstance(node, ast.ClassDef)
    }
    contracts = set(CONTRACTS)
    while derived := {name for name, parents in bases.items() if parents & contracts} - contracts:
        contracts |= derived
    return [
        f"{file.path}:{node.lineno} {name}"
        for file in files
        if file.package not in {"learning", "testing"}
        for node in file.nodes
        if isinstance(node, ast.Call) and _last_name(node.func) == "isinstance"
        for name in sorted({_last_name(inner) for inner in ast.walk(node.args[1])} & contracts)
    ]


def preset_comparisons(files: Sequence[File]) -> list[str]:
    """Comparisons with the name of a preset or a source, outside the presets and the project settings."""
    exempt = {"learning/presets.py", "project/config.py"}
    constants = {
        target.id: str(node.value.value)
        for file in files
        for node in file.tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.isupper()
    }
    places = []
    for file in files:
        for node in file.nodes if file.path not in exempt else ():
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq) for op in node.ops):
                sides = (node.left, *node.comparators)
                values = {s.value if isinstance(s, ast.Constant) else constants.get(_last_name(s), "") for s in sides}
                places += [f"{file.path}:{node.lineno} {name}" for name in sorted(PRESET_NAMES & set(map(str, values)))]
    return places


def untyped_dicts(files: Sequence[File]) -> list[str]:
    """Functions, except `to_json` and `describe`, that return `dict[str, Any]` or an alias for it."""
    aliases = {"dict[str, Any]"} | {
        target.id
        for file in files
        for node in file.tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.value) == "dict[str, Any]"
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        f"{file.path}:{node.lineno} {node.name}"
        for file in files
        for node in file.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.returns is not None
        and ast.unparse(node.returns) in aliases
        and node.name not in JSON_METHODS
    ]


def small_single_importer_files(files: Sequence[File]) -> list[str]:
    """Short files that only one other file imports."""
    modules = {file.module: file for file in files if not file.path.endswith(".pyi")}
    importers: dict[str, set[str]] = {name: set() for name in modules}
    for file in files:
        for node, name in file.imports():
            inner = {f"{name}.{alias.name}" for alias in node.names} if isinstance(node, ast.ImportFrom) else set()
            for module in ({name} | inner) & set(modules):
                importers[module].add(file.path)
    return [
        f"{file.path} ({file.lines} lines, imported by {next(iter(importers[file.module]))})"
        for file in files
        if not file.path.endswith(("__init__.py", "__init__.pyi", "__main__.py"))
        and file.lines < SMALL_FILE
        and len(importers[file.module] - {file.path}) == 1
    ]


def duplicate_class_names(files: Sequence[File]) -> list[str]:
    """Class names that more than one file defines."""
    paths: dict[str, list[str]] = {}
    for file in files:
        for node in file.nodes:
            if isinstance(node, ast.ClassDef) and file.path.endswith(".py"):
                paths.setdefault(node.name, []).append(file.path)
    return [f"{name}: {', '.join(places)}" for name, places in sorted(paths.items()) if len(places) > 1]


# --- packages, their public names, and modules that use each other -------------------------------------------------


def face_names(files: Sequence[File]) -> dict[str, dict[str, str]]:
    """Return the public names of each package, with the modules that define them."""
    return {
        file.package: {
            alias.asname or alias.name: ".".join(filter(None, ("accord", file.package, node.module or alias.name)))
            for node in file.tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for file in files
        if file.path.endswith("/__init__.pyi") and file.path.count("/") == 1
    }


def used_names(file: File) -> Iterator[tuple[str, str]]:
    """Yield the public names that a file uses, as package and name: imported ones, and attributes of a package."""
    packages: dict[str, str] = {}
    for node in file.nodes:
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            first, _, package = (node.module or "").partition(".")
            if first == "accord" and "." not in package:
                packages |= {alias.asname or alias.name: alias.name for alias in node.names if not package}
                yield from ((package, alias.name) for alias in node.names if package)
    for node in file.nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            yield packages[node.value.id], node.attr


def all_face_names(files: Sequence[File]) -> int:
    """Number of public names of all packages."""
    return sum(map(len, face_names(files).values()))


def unused_face_names(files: Sequence[File]) -> list[str]:
    """Public names of packages that no other package of the product uses and that `accord` does not export."""
    used = {used for file in files if file.path.endswith(".py") for used in used_names(file) if used[0] != file.package}
    top = {
        alias.name
        for file in files
        if file.path == "__init__.pyi"
        for node in file.nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return [
        f"{package}.{name}"
        for package, names in sorted(face_names(files).items())
        for name in sorted(names)
        if (package, name) not in used and name not in top
    ]


def module_uses(files: Sequence[File]) -> dict[str, set[str]]:
    """Return the modules that each module uses, also in functions, type checks and through lazy packages."""
    modules = {file.module: file for file in files if file.path.endswith(".py")}
    faces = face_names(files)
    uses: dict[str, set[str]] = {}
    for name, file in modules.items():
        if file.path.endswith("__init__.py"):
            continue
        used = {faces.get(package, {}).get(used, "") for package, used in used_names(file)}
        for node, module in file.imports():
            used |= {module} | (
                {f"{module}.{a.name}" for a in node.names} if isinstance(node, ast.ImportFrom) else set()
            )
        uses[name] = {module for module in used & modules.keys() if not modules[module].path.endswith("__init__.py")}
        uses[name] -= {name}
    return uses


def hidden_cycles(files: Sequence[File]) -> list[str]:
    """Modules that use each other in a ring, one entry per module."""
    left = {name: set(used) for name, used in module_uses(files).items()}
    while True:
        used = set[str]().union(*left.values()) if left else set[str]()
        free = {name for name, needs in left.items() if not needs & left.keys() or name not in used}
        if not free:
            return sorted(left)
        left = {name: needs - free for name, needs in left.items() if name not in free}


def largest_floor(files: Sequence[File]) -> int:
    """Largest number of modules in one folder."""
    modules = (file.path for file in files if not file.path.endswith(("__init__.py", ".pyi")))
    return max(Counter(path.rpartition("/")[0] for path in modules).values())


def branches(function: ast.AST) -> int:
    """Number of conditions, loops, handlers and cases of a function, those inside expressions included."""
    count, left = 0, list(ast.iter_child_nodes(function))
    while left:
        node = left.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        count += isinstance(
            node, ast.If | ast.IfExp | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.match_case
        )
        count += 1 + len(node.ifs) if isinstance(node, ast.comprehension) else 0
        count += len(node.values) - 1 if isinstance(node, ast.BoolOp) else 0
        left.extend(ast.iter_child_nodes(node))
    return count


def functions_by_branches(files: Sequence[File]) -> list[tuple[int, str]]:
    """Return every function with its number of branches, the largest first."""
    return sorted(
        (
            (branches(node), f"{file.path}:{node.lineno} {node.name}")
            for file in files
            if file.path.endswith(".py")
            for node in file.nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        ),
        reverse=True,
    )


def branched_functions(files: Sequence[File]) -> list[str]:
    """Functions with more than `MANY_BRANCHES` branches."""
    return [f"{place} ({count})" for count, place in functions_by_branches(files) if count > MANY_BRANCHES]


def single_caller_functions(files: Sequence[File]) -> list[str]:
    """Private functions and methods that their module uses once."""
    places = []
    for file in files:
        uses = Counter(
            node.id if isinstance(node, ast.Name) else node.attr
            for node in file.nodes
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load)
        )
        places += [
            f"{file.path}:{node.lineno} {node.name}"
            for node in file.nodes
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            and node.name.startswith("_")
            and not node.name.startswith("__")
            and uses[node.name] == 1
        ]
    return places


# --- sizes ---------------------------------------------------------------------------------------------------------


def code_lines(files: Iterable[File]) -> int:
    """Number of lines with code. Stubs do not count."""
    return sum(len(file.code) for file in files if file.path.endswith(".py"))


def function_sizes(files: Sequence[File]) -> dict[str, float]:
    """Number of functions, and how finely the code is cut."""
    sizes = [
        len(file.code.intersection(_lines_of(node)))
        for file in files
        if file.path.endswith(".py")
        for node in file.nodes
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return {
        "functions": len(sizes),
        "code-lines-per-function": round(code_lines(files) / max(1, len(sizes)), 1),
        "functions-of-at-most-5-lines": sum(size <= 5 for size in sizes),
        "longest-function": max(sizes, default=0),
        "dataclasses": sum(
            any("dataclass" in ast.unparse(each) for each in node.decorator_list)
            for file in files
            for node in file.nodes
            if isinstance(node, ast.ClassDef)
        ),
        "longest-file": max((file.lines for file in files), default=0),
    }


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _lines_of(node: ast.AST) -> range:
    first = getattr(node, "lineno", 0)
    return range(first, (getattr(node, "end_lineno", None) or first) + 1)


def _last_name(node: ast.AST) -> str:
    """Last name of a name, an attribute, a call or a subscript."""
    if isinstance(node, ast.Call):
        return _last_name(node.func)
    if isinstance(node, ast.Subscript):
        return _last_name(node.value)
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


# --- table --------------------------------------------------------------------------------------------------------

LISTS: Mapping[str, Callable[[Sequence[File]], list[str]]] = {
    "isinstance-of-evaluator": evaluator_type_checks,
    "method-comparisons": preset_comparisons,
    "dict-any-returns": untyped_dicts,
    "single-importer-dust": small_single_importer_files,
    "duplicate-class-names": duplicate_class_names,
    "face-names-unused": unused_face_names,
    "hidden-cycles": hidden_cycles,
    "branched-functions": branched_functions,
    "single-caller-functions": single_caller_functions,
}


def measure(folder: Path) -> dict[str, Any]:
    """Return every count of the checkout whose `src` is `folder`; counts with places are lists."""
    files, checkout = read_package(folder), folder.parent
    of_papers = [file for file in files if file.package == "papers"]
    core = [file for file in files if file.package != "papers"]
    total = sum(file.lines for file in files)
    by_package = Counter[str]()
    for file in files:
        by_package[file.package] += file.lines
    source = wording.count([each for each in (folder, checkout / PAPERS) if each.is_dir()])
    return {
        **{name: count(files) for name, count in LISTS.items()},
        "face-names": all_face_names(files),
        "modules-on-one-floor": largest_floor(files),
        "most-branches": functions_by_branches(files)[0][0],
        **function_sizes(core),
        "core code-lines": code_lines(core),
        "papers code-lines": code_lines([*of_papers, *read_files(checkout / PAPERS)]),
        "test-lines": _lines_in(checkout / "tests") + _lines_in(checkout / PAPERS.parents[1] / "tests"),
        "benchmark-lines": _lines_in(checkout / "benchmarks"),
        "english-src": source.per_thousand,
        "wh-docstrings": source.kinds["docstring start"],
        "english-docs": wording.count([checkout / "docs", checkout / "README.md"]).per_thousand,
        "english-tests": wording.count([checkout / "tests"]).per_thousand,
        "files": sum(file.path.endswith(".py") for file in files),
        "lines": total,
        **{f"lines-{name}": lines for name, lines in sorted(by_package.items())},
    }


def _lines_in(folder: Path) -> int:
    return sum(path.read_text(encoding="utf-8").count("\n") for path in folder.rglob("*.py"))


def rows_of(counts: Mapping[str, Any], baseline: Mapping[str, Any] | None) -> list[Row]:
    """Return one row per count, with the baseline's value if there is a baseline."""
    rows: list[Row] = []
    for name in dict.fromkeys([*counts, *(baseline or {})]):
        row: Row = {"what": name, "value": _number(counts.get(name))}
        row |= {"baseline": _number(baseline.get(name))} if baseline is not None else {}
        row |= {"places": counts[name]} if isinstance(counts.get(name), list) else {}
        rows.append(row)
    return rows


def _number(value: Any) -> Any:
    return len(value) if isinstance(value, list) else value


def main() -> None:
    parser = options("architecture", "Size and structure of the source tree.")
    parser.add_argument("--baseline", metavar="DIR|COMMIT", help="src folder of another checkout, or a commit")
    arguments = parser.parse_args()
    baseline = None
    if arguments.baseline is not None and Path(arguments.baseline).is_dir():
        baseline = measure(Path(arguments.baseline))
    elif arguments.baseline is not None:
        with checkout(arguments.baseline) as other:
            baseline = measure(other / "src")
    rows = rows_of(measure(ROOT / "src"), baseline)
    for row in rows:
        if not arguments.quick and 0 < (row["value"] or 0) <= PRINTED_PLACES and "places" in row:
            print(f"{row['what']}:", *row["places"], sep="\n  ", end="\n\n")
    print(table(rows, ["what", "value", *(["baseline"] if baseline is not None else [])]))
    write("architecture", rows, arguments.json)


if __name__ == "__main__":
    main()
