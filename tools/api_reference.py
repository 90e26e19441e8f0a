"""The users' API: its names, the file of signatures (docs/api.txt) and the reference page (docs/api.md).

The names stand here once. `make docs` writes both files, and tests/test_api.py compares them with the code.
"""

from __future__ import annotations

import ast
import builtins
import dataclasses
import doctest
import enum
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel

SOURCE = Path(__file__).parent.parent / "src"

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Open a project": {
        "accord": "__version__ open Project Store",
        "accord.project": "Config ImportOptions Imported JudgeRun NextLabel",
        "accord.report": "RunOptions RunResult",
        "accord.sample": "sources",
    },
    "Values": {
        "accord": "Conversation Turn Document Target Label Labels Question Rubric Scale load_rubric Score Unscored "
        "read read_labels",
        "accord.values": "Sample dump_rubric score_from",
    },
    "Check a table": {"accord": "check", "accord.table_check": "CheckResult"},
    "Evaluate and score": {
        "accord": "Evaluator load_evaluator EvidenceTable compare score_frame",
        "accord.validation": "Comparison",
        "accord.project": "Compared Fitted Insights Estimates",
        "accord.scoring": "ScoreRun ScoreOptions Perspective BatchScorer Execution PartsRun",
    },
    "Score live": {"accord": "LiveScorer Reward"},
    "Plug-ins": {
        "accord": "metrics Source ChatModel Judge",
        "accord.evidence": "turn_metrics sources SourceContext SourceSettings Training Column LearnedEvidence "
        "LearnedSource",
        "accord.learning": "heads Head",
        "accord.methods": "selection_policies",
        "accord.formats": "formats Format Record",
        "accord.models": "judge_modes Request run memory_models without_requests",
        "accord.values": "Registry",
    },
    "Errors": {
        "accord": "AccordError BadInput",
        "accord.edges": "UnknownName PluginError BudgetReached GateFailed MissingExtra ModelError",
    },
    "Testing": {
        "accord.testing": "check_metric check_turn_metric check_source check_head check_format check_judge "
        "check_selection_policy check_batch_scorer "
        "planted sample_project ChatServer completion",
        "accord.models": "ScriptedJudge ScriptedModel",
    },
}
"""Names of the users' API by group and package."""

MEMBERS: Mapping[str, str] = {
    "CheckResult": "main verdict to_json",
    "Project": "import_ raters_text judge plan_judge fit plan_fit compare score score_parts label_next estimate synth "
    "plan_synth check_synth insights use report gate run load close cap evaluator evaluator_names folder",
    "Evaluator": "fit predict save evidence describe digest signature is_fitted is_live annotators roles "
    "in_new_domain without_plausibility plausibility_text",
    "Store": "add_conversations add_annotations add_labels conversations conversation_ids count_conversations "
    "annotations labels runs close",
    "LiveScorer": "message take conversation forget level_notes plausibility_text",
    "BatchScorer": "__call__ evaluator signature spent",
}
"""Members that belong to the users' API, for classes that other packages of Accord use, too; otherwise all."""

SPECIAL = {"__call__", "__contains__", "__enter__", "__getitem__", "__iter__", "__len__"}


class Name(NamedTuple):
    """One name of the API.

    Attributes:
        group: Heading on the reference page.
        package: Package that users import it from.
        name: Name in the package.
        value: The class, function or constant.
    """

    group: str
    package: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """Dotted path."""
        return f"{self.package}.{self.name}"

    @property
    def thing(self) -> Any:
        """The value; of a parametrized class the class itself."""
        return typing.get_origin(self.value) or self.value


@cache
def names() -> tuple[Name, ...]:
    """Return all names of the API, in the order of the page."""
    return tuple(
        Name(group, package, name, getattr(import_module(package), name))
        for group, packages in GROUPS.items()
        for package, listed in packages.items()
        for name in listed.split()
    )


class Member(NamedTuple):
    """A method, a property or an attribute of a class.

    Attributes:
        name: Name in the class.
        value: Function, or the class attribute.
        is_call: True for methods.
        signature: Parameters and result, or the type.
    """

    name: str
    value: Any
    is_call: bool
    signature: str


def members(name: Name) -> Iterator[Member]:
    """Yield the members of a class that belong to the API, without its fields and the members of listed bases."""
    kind = name.thing
    listed = {each.thing for each in names() if inspect.isclass(each.thing)} - {kind}
    owners = [each for each in kind.__mro__ if each.__module__.startswith("accord.") and each not in listed]
    fields = {each.name for each in dataclasses.fields(kind)} if dataclasses.is_dataclass(kind) else set(_fields(kind))
    chosen = MEMBERS.get(name.name, "").split()
    for member in sorted({each for owner in owners for each in vars(owner)} - fields):
        if member in chosen if chosen else member in SPECIAL or not member.startswith(("_", "model_")):
            raw = inspect.getattr_static(kind, member)
            if member in SPECIAL and "accord" not in getattr(raw, "__module__", ""):
                continue  # of a library
            yield _member(kind, member, raw)


def _member(kind: type, name: str, raw: Any) -> Member:
    """Describe a member of a class."""
    inner = raw.fget if isinstance(raw, property) else getattr(raw, "func", None)  # of a cached property
    if inner is not None:
        return Member(name, inner, False, _text(inspect.signature(inner).return_annotation))
    function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
    if not inspect.isfunction(function):
        found = [each.__annotations__[name] for each in kind.__mro__ if name in getattr(each, "__annotations__", {})]
        return Member(name, raw, False, _text(found[0]) if found else type(raw).__name__)
    return Member(name, function, True, _call(function, skip=0 if isinstance(raw, staticmethod) else 1))


def _fields(kind: type) -> Mapping[str, Any]:
    """Return the fields of a pydantic model or a named tuple by name; empty for other classes."""
    if issubclass(kind, BaseModel):
        return kind.model_fields
    return dict.fromkeys(getattr(kind, "_fields", ()))


def signature(name: Name) -> str:
    """Return the signature as source text: parameters and result, or the type of a constant."""
    thing = name.thing
    if inspect.isfunction(thing):
        return _call(thing, skip=0)
    if not inspect.isclass(thing):
        return f": {constant(name)[0]}"
    if issubclass(thing, BaseModel):
        return f"({', '.join(_model_fields(thing))})" if thing.model_fields else "()"
    if getattr(thing, "_is_protocol", False):
        return ""
    try:
        return _call(thing, skip=0).removesuffix(" -> None")
    except ValueError:  # an exception without a constructor of its own
        return "(message: str)"


def _model_fields(model: type[BaseModel]) -> Iterator[str]:
    """Yield the fields of a pydantic model as keyword arguments, with the annotations of the source."""
    yield "*"
    for name, field in model.model_fields.items():
        owner = next(each for each in model.__mro__ if name in getattr(each, "__annotations__", {}))
        default = "" if field.is_required() else f" = {_default(field.default)}"
        yield f"{name}: {_text(owner.__annotations__[name])}{default}"


def _call(function: Callable[..., Any], skip: int) -> str:
    """Return the parameters after the first `skip`, and the result; awaited results are marked."""
    found = inspect.signature(function)
    parts, starred = [], False
    for parameter in list(found.parameters.values())[skip:]:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
        starred = starred or parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = "*" * (parameter.kind is parameter.VAR_POSITIONAL) + "**" * (parameter.kind is parameter.VAR_KEYWORD)
        typed = "" if parameter.annotation is parameter.empty else f": {_text(parameter.annotation)}"
        default = "" if parameter.default is parameter.empty else f" = {_default(parameter.default)}"
        parts.append(f"{stars}{parameter.name}{typed}{default}")
    result = "" if found.return_annotation is found.empty else f" -> {_text(found.return_annotation)}"
    if inspect.iscoroutinefunction(function):
        result = result.replace(" -> ", " -> await ")
    return f"({', '.join(parts)}){result}"


def _text(annotation: Any) -> str:
    """Return an annotation as in the source."""
    if isinstance(annotation, typing.ForwardRef):
        annotation = annotation.__forward_arg__
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\s+", " ", text)


def _default(value: Any) -> str:
    """Return a default value that is a constant; an ellipsis for objects."""
    if isinstance(value, enum.Enum):
        value = value.value
    return repr(value) if value is None or isinstance(value, bool | int | float | str) or value == () else "..."


def _module(package: str, name: str) -> Path:
    """Return the file that defines a public name of a package."""
    folder = SOURCE.joinpath(*package.split("."))
    for node in ast.parse((folder / "__init__.pyi").read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and name in {alias.name for alias in node.names}:
            path = folder.joinpath(*str(node.module).split(".")).with_suffix(".py")
            return path if path.exists() else _module(f"{package}.{node.module}", name)
    raise KeyError(f"{package} has no public name {name!r}")


def constant(name: Name) -> tuple[str, str]:
    """Return the type of a constant and the text below its definition."""
    body = ast.parse(_module(name.package, name.name).read_text(encoding="utf-8")).body
    for node, after in zip(body, [*body[1:], None], strict=True):
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        if [each.id for each in targets if isinstance(each, ast.Name)] != [name.name]:
            continue
        kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else type(name.value).__name__
        said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        return kind, inspect.cleandoc(str(said))
    raise AssertionError(f"{name.path} is not defined where its package says")


def lines() -> Iterator[str]:
    """Yield the lines of docs/api.txt: each name and member with its signature, sorted."""
    found = []
    for name in names():
        bases = [each.name for each in names() if each.thing in getattr(name.thing, "__bases__", ())]
        found.append(f"{name.path}{signature(name)}" + (f" [base: {', '.join(bases)}]" if bases else ""))
        if inspect.isclass(name.thing):
            for each in members(name):
                found.append(f"{name.path}.{each.name}{'' if each.is_call else ': '}{each.signature}")
    return iter(sorted(found))


def text_page() -> str:
    """docs/api.txt."""
    return "\n".join(lines()) + "\n"


# --- reference page ---------------------------------------------------------------------------------------------------

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")


def markdown(docstring: str, module: str) -> str:
    """Return a docstring of a module as Markdown: sections become lists, examples become blocks with their imports."""
    written: list[str] = []
    rows = iter([*inspect.cleandoc(docstring).splitlines(), ""])
    inside = False
    for row in rows:
        if match := SECTION.match(row):
            written += [f"**{match[1]}**", ""]
            inside = True
        elif row.startswith(">>>"):
            block = [row, *iter(lambda: next(rows), "")]
            written += ["```pycon", *_imports("\n".join(block), module), *block, "```", ""]
            inside = False
        elif inside and row.startswith("    ") and not row.startswith("     "):
            head, colon, rest = row.strip().partition(": ")
            listed = [f"`{each.strip()}`" for each in head.split(",")]
            written.append(f"- {', '.join(listed)}: {rest}" if colon and _is_names(head) else f"- {row.strip()}")
        elif inside and row.startswith("     "):
            written.append(f"  {row.strip()}")
        else:
            written.append(row)
            inside = inside and not row.strip()
    return re.sub(r"\n{3,}", "\n\n", "\n".join(written)).strip()


def _imports(example: str, module: str) -> Iterator[str]:
    """Yield imports of the names that an example takes from the module of its docstring.

    Raises:
        AssertionError: No package of Accord has such a name.
    """
    tree = ast.parse("".join(each.source for each in doctest.DocTestParser().get_examples(example)))
    nodes = list(ast.walk(tree))
    bound = {each.id for each in nodes if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    bound |= {each.arg for each in nodes if isinstance(each, ast.arg)}
    bound |= {
        each.name
        for each in nodes
        if isinstance(each, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler) and each.name
    }
    bound |= {
        alias.asname or alias.name
        for each in nodes
        if isinstance(each, ast.Import | ast.ImportFrom)
        for alias in each.names
    }
    used = {each.id for each in nodes if isinstance(each, ast.Name)} - bound - set(dir(builtins))
    packages: dict[str, list[str]] = {}
    for name in sorted(used):
        packages.setdefault(_package_of(name, module), []).append(name)
    for package, taken in sorted(packages.items()):
        yield f">>> from {package} import {', '.join(taken)}"


def _package_of(name: str, module: str) -> str:
    """Return the package that users import a name of a module from."""
    value = getattr(import_module(module), name)
    origin = getattr(value, "__module__", module) if inspect.isclass(value) or inspect.isfunction(value) else module
    packages = ["accord", ".".join(origin.split(".")[:2]), *(each.package for each in names())]
    found = [
        each for each in packages if name in dir(import_module(each)) and getattr(import_module(each), name) is value
    ]
    assert found, f"an example of {module} uses {name}, which no package has"
    return found[0]


def _is_names(head: str) -> bool:
    return all(re.fullmatch(r"\*{0,2}[\w.]+", each.strip()) for each in head.split(","))


def description(name: Name) -> str:
    """Return the text of a name: of a class also that of its constructor or fields, of a constant that below it."""
    thing = name.thing
    if not inspect.isclass(thing):
        return inspect.cleandoc(str(thing.__doc__)) if inspect.isfunction(thing) else constant(name)[1]
    own = inspect.isfunction(thing.__init__) and thing.__init__.__module__ == thing.__module__
    texts = [inspect.cleandoc(each) for each in (thing.__doc__, thing.__init__.__doc__ if own else None) if each]
    fields = _fields(thing) if issubclass(thing, BaseModel) else {}
    if said := [f"    {each}: {field.description}" for each, field in fields.items() if field.description]:
        texts.append("\n".join(["Attributes:", *said]))
    return "\n\n".join(texts)


def entry(name: Name) -> str:
    """Return the section of one name."""
    module = getattr(name.thing, "__module__", name.package)
    heading = name.path.replace("__", r"\_\_")  # else the name is bold
    parts = [f"### {heading}", f"```text\n{name.name}{signature(name)}\n```", markdown(description(name), module)]
    if inspect.isclass(name.thing) and (found := list(members(name))):
        parts.append("\n".join(_row(each, module) for each in found))
    return "\n\n".join(parts)


def _row(member: Member, module: str) -> str:
    """Return the list item of a member: its signature and its text."""
    text = f"- `{member.name}{'' if member.is_call else ': '}{member.signature}`"
    if not inspect.isfunction(member.value) or not member.value.__doc__:
        return text
    said = markdown(member.value.__doc__, module)
    return f"{text}  \n{textwrap.indent(said, '    ')}" + ("\n" if "\n\n" in said else "")


def page() -> str:
    """docs/api.md."""
    groups: dict[str, list[str]] = {}
    for name in names():
        groups.setdefault(name.group, []).append(entry(name))
    parts = [
        "# Python API",
        "Names for users of Accord; `make docs` generates this page from the docstrings. The signatures are in\n"
        "[api.txt](api.txt), and each change of one is in the changelog. Other names are for Accord's own packages\n"
        "([decision 75](decisions/0075-two-kinds-of-public-names.md)). [python.md](python.md) shows the names in use,\n"
        "[plugins.md](plugins.md) those of plug-ins.",
    ]
    for group, entries in groups.items():
        parts += [f"## {group}", *entries]
    return "\n\n".join(parts) + "\n"
