"""`accord init`: a project file and a rubric to edit; the rubric is a shipped one, or made from labels."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from accord.cli.app import command
from accord.cli.options import AsJson, Columns, RubricOptions, column_map, command_line
from accord.cli.outputs import CHECKED_BY_COMMAND
from accord.cli.terminal import can_ask, say, show
from accord.edges import BadInput, UnknownName, count_of

if TYPE_CHECKING:
    from accord.formats import ObservedAnswers
    from accord.project import FileSurvey, InferredRubric
    from accord.values import Question, Rubric

HEAD = """\
# Made from labels by `accord init --from`. Edit the wording, which the judge reads. A scale that is too narrow
# for labels to come (1 to 4 seen, 1 to 5 asked) is widened here.
"""


@command("init")
def init(
    answers: RubricOptions,
    conversations: Annotated[
        list[Path] | None, typer.Argument(help="With --from: files of conversations that the labels are about.")
    ] = None,
    labels_from: Annotated[
        list[Path] | None,
        typer.Option("--from", help="Write a rubric that fits the labels of this file or folder; repeat."),
    ] = None,
    columns: Columns = None,
    rubric: Annotated[
        str | None,
        typer.Option(
            "--rubric",
            help="The shipped rubric to start from, by default llm-rubric; narrow-questions has ten two-valued ones. "
            "With --from, its questions are added to those of the labels, without its main question.",
        ),
    ] = None,
    prompts: Annotated[
        Path | None,
        typer.Option("--prompts", help="Also write the prompts of `fit learned-rubric` there, to edit."),
        CHECKED_BY_COMMAND,
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Write accord.yaml and rubric.yaml into this folder; existing files stay as they are.

    With --from the rubric has a question for each kind of label, on the scale of its values. Questions of a rubric that
    you have edited, or that the labels answer, are kept and the others added. The result goes into a new file if
    rubric.yaml exists, and accord.yaml names it.
    """
    from accord.formats import parse_orders
    from accord.project import project_template, set_orders, set_scales, survey_files
    from accord.values import dump_rubric, load_rubric

    template = project_template()
    if not labels_from:
        if conversations or columns or answers != RubricOptions():
            raise BadInput(
                "files, --main, --labels, --rater, --judge, --scale, --order and --columns go with --from: "
                "accord init --from labels.csv"
            )
        _without_labels(template, rubric, prompts, as_json)
        return
    paths = list(dict.fromkeys([*labels_from, *(conversations or ())]))
    labels, raters, judges = answers.named_columns
    found = survey_files(
        paths, "auto", column_map(columns), labels, raters=raters, judges=judges,
        command=command_line(
            "accord init --from", [labels_from[0], *(conversations or ())], labels, columns, raters, labels_from[1:],
            judges,
        ),
    )  # fmt: skip
    ends = answers.scale_map
    set_scales(found, ends)
    base = _rubric_in_use(found) if rubric is None else None
    set_orders(found.questions, parse_orders(answers.orders), base)
    made = _extended(base, found, answers.main, ends)
    made = made if rubric is None else _with_shipped(made, load_rubric(rubric))
    text = dump_rubric(made.rubric)
    name = "rubric.yaml" if made.rubric == base else _free_name(HEAD + text)
    new = {"accord.yaml": template.replace("rubric: rubric.yaml ", f"rubric: {name} ")}
    result = _written(new if made.rubric == base else {**new, name: HEAD + text}, prompts)
    if made.rubric != base and "accord.yaml" in result["kept"] and _names_it(name):
        result["kept"].remove("accord.yaml")
        result["changed"] = [f"accord.yaml: rubric: {name}"]
    said = [*made.notes, *_notes_of(found)]
    asked = _asked(made.rubric, found)
    command, needed = _next(found, paths, columns, answers)
    more = {
        "main": made.rubric.main, "questions": asked, "raters": found.people, "judges": dict(found.judges),
        "rated_by": found.who_rated, "said": said + needed + _judge_note(result), "next": command,
    }  # fmt: skip
    show({**result, **more}, as_json, _text)


def _without_labels(template: str, rubric: str | None, prompts: Path | None, as_json: bool) -> None:
    """Write accord.yaml and a shipped rubric, and print the next command."""
    from accord.values import dump_rubric, load_rubric

    result = _written(
        {"accord.yaml": template, "rubric.yaml": dump_rubric(load_rubric(rubric or "llm-rubric"))}, prompts
    )
    command, said = _next_here()
    if rubric is not None and "rubric.yaml" in result["kept"]:
        said.insert(0, f"{rubric} was not written; to use it, set in accord.yaml: rubric: {rubric}")
    show({**result, "said": said + _judge_note(result), "next": command}, as_json, _text)


def _asked(rubric: Rubric, found: FileSurvey) -> list[dict[str, Any]]:
    """Return a row for each question that has labels."""
    return [
        {"question": each.id, "name": each.name, "scale": _scale_text(each), "kind": each.scale.kind.value,
         "labels": found.questions[each.id].total}
        for each in rubric.questions if each.id in found.questions
    ]  # fmt: skip


def _notes_of(found: FileSurvey) -> list[str]:
    """Return sentences on what was read in files: who rated, positions, and further columns that may be ratings."""
    from accord.project import positions_note

    said = list(found.rater_notes)
    if found.positions:
        said.append(positions_note(found.positions))
    if found.other_candidates:
        said.append(f"these could be ratings too: {', '.join(found.other_candidates)} (--labels NAME)")
    return said


def _judge_note(result: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence on the judge of a new project file."""
    if "accord.yaml" not in result["written"]:
        return []
    return [
        "to add a judge, set models.judge in accord.yaml; start with a decision model (mode: decisions or systemone), "
        "whose API gives a probability per option. Without a key: accord demo --judge scripted"
    ]


def _scale_text(question: Question) -> str:
    """Return the options of a question, with their words where the labels have words."""
    words = [question.meanings.get(str(option), "") for option in question.scale.options]
    if not any(words):
        return str(question.scale)
    return ", ".join(
        f"{option} ({word})" if word else f"{option}"
        for option, word in zip(question.scale.options, words, strict=True)
    )


def _main_of(found: FileSurvey, main: str | None) -> str | None:
    """Return the main question: the named one, or the answer to a prompt if a terminal has several to choose from."""
    names = list(found.questions)
    if main is not None or len(names) < 2 or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return main
    from accord.project import infer_rubric

    guess = infer_rubric(found.questions.values()).rubric.main
    chosen: str = typer.prompt(f"Main question, to be learned ({', '.join(names)})", default=guess, err=True)
    return chosen


def _rubric_in_use(found: FileSurvey) -> Rubric | None:
    """Return the rubric whose questions stay: the project's, if it was edited or the labels answer its questions."""
    from accord.project import load_config
    from accord.values import PROJECT_FILE, load_rubric, shipped_rubrics

    project = Path(PROJECT_FILE)
    if not project.is_file() and not Path("rubric.yaml").is_file():
        return None
    used = load_rubric(load_config(project).rubric if project.is_file() else "rubric.yaml")
    is_edited = all(load_rubric(name).hash != used.hash for name in shipped_rubrics())
    is_answered = any(used.get(name) is not None for name in found.questions)
    return used if is_edited or is_answered else None


def _extended(base: Rubric | None, found: FileSurvey, main: str | None, scales: Collection[str]) -> InferredRubric:
    """A rubric from the labels; with `base`, that rubric with a question for each kind of label that it lacks."""
    from accord.formats import rescaled
    from accord.project import InferredRubric, infer_questions, infer_rubric

    if base is None:
        return infer_rubric(found.questions.values(), _main_of(found, main), "from-labels")
    asked = {question.id for question in base.questions} & found.questions.keys()
    lacking = [each for name, each in found.questions.items() if name not in asked]
    added, more = infer_questions(lacking, base.questions)
    if not (added or asked):
        infer_rubric(lacking)  # raises the error for labels without a scale
    checked = asked - set(scales)
    said = [*more, *(_off_scale(base, each) for name, each in found.questions.items() if name in checked)]
    if added:
        said.append(f"added to the rubric {base.name!r}, which had {count_of(len(base.questions), 'question')}")
    kept = (rescaled(each, found.questions[each.id]) if each.id in scales else each for each in base.questions)
    rubric = _with_questions(base, [*kept, *added], main or base.main)
    if rubric == base:
        said.append(f"the rubric {base.name!r} asks these already, or they have no scale; nothing was changed")
    return InferredRubric(rubric, list(filter(None, said)))


def _with_shipped(made: InferredRubric, shipped: Rubric) -> InferredRubric:
    """Return a rubric from labels with the questions of a shipped one that the labels do not answer."""
    from accord.project import InferredRubric

    known = {question.id.casefold() for question in made.rubric.questions}
    added = [each for each in shipped.questions if each.id != shipped.main and each.id.casefold() not in known]
    rubric = _with_questions(made.rubric, [*made.rubric.questions, *added], made.rubric.main)
    said = f"{count_of(len(added), 'question')} of {shipped.name} added, which only judges answer"
    return InferredRubric(rubric, [*made.notes, said])


def _with_questions(rubric: Rubric, questions: Sequence[Question], main: str) -> Rubric:
    """Return a rubric with other questions.

    Raises:
        UnknownName: The main question is not among them.
    """
    from accord.values import Rubric

    names = [question.id for question in questions]
    if main not in names:
        raise UnknownName("question", main, names)
    fields = {name: getattr(rubric, name) for name in Rubric.model_fields}
    return Rubric(**{**fields, "questions": tuple(questions), "main": main})


def _off_scale(base: Rubric, observed: ObservedAnswers) -> str:
    """A sentence on values that are not on the scale of their question, or an empty text."""
    from accord.formats import off_scale

    question = base[observed.name]
    values = off_scale(observed, question)
    if not values:
        return ""
    shown = ", ".join(map(str, values[:6])) + (", ..." if len(values) > 6 else "")
    return (
        f"{observed.name!r} has values that its scale does not hold: {shown}; allowed: {question.scale}. Edit "
        "the scale in the rubric's file, or import the other rows: accord import --skip-bad-rows"
    )


def _free_name(text: str) -> str:
    """Return `rubric.yaml`, or a free name next to it if the file exists with other content."""
    names = ["rubric.yaml", "rubric-from-labels.yaml", *(f"rubric-from-labels-{count}.yaml" for count in range(2, 100))]
    return next(name for name in names if not Path(name).exists() or Path(name).read_text(encoding="utf-8") == text)


def _names_it(rubric: str) -> bool:
    """Have accord.yaml name another rubric, that line alone changed; whether it had to be."""
    path = Path("accord.yaml")
    before = path.read_text(encoding="utf-8")
    after, count = re.subn(r"(?m)^rubric:[ \t]*[^\s#]+", f"rubric: {rubric}", before)
    if not count:
        after = f"{before.rstrip()}\nrubric: {rubric}\n"
    path.write_text(after, encoding="utf-8")
    return after != before


ENDINGS = (".jsonl", ".json", ".csv", ".tsv", ".parquet")
"""Endings of files, packed or not, that may hold conversations or labels."""
MOST_NAMED = 6


def _next(
    found: FileSurvey, paths: Sequence[Path], columns: list[str] | None, answers: RubricOptions
) -> tuple[str, list[str]]:
    """Return the command that imports the surveyed labels and conversations, and a sentence about it."""
    labels = found.rating_columns if found.guessed_columns else ()
    raters, judges = answers.raters or (), answers.judges or ()
    if not found.conversations:
        command = command_line("accord import CONVERSATIONS", paths, labels, columns, raters, judges=judges)
        return "", [f"the labels need their conversations; name the file that holds them: {command}"]
    return command_line("accord import", paths, labels, columns, raters, judges=judges), []


def _data_files() -> list[Path]:
    """Return the files of this folder that may hold conversations or labels, by their names."""
    from accord.edges import unpacked_name

    files = (path for path in sorted(Path().iterdir()) if path.is_file())
    return [path for path in files if unpacked_name(path.name.lower()).endswith(ENDINGS)]


def _next_here() -> tuple[str, list[str]]:
    """Return the command that follows an `accord init` without labels, and a sentence that explains the command."""
    files = [path for path in _data_files() if _content_of(path) != "scores"]
    if not files:
        return "accord demo", ["no data here yet; copy files of conversations and labels here, then: accord import ."]
    labels = [path for path in files if _content_of(path) == "labels"]
    offered = command_line("accord init", [], label_files=labels[:MOST_NAMED]).replace("init  ", "init ")
    said = [f"{', '.join(map(str, labels[:MOST_NAMED]))}: labels. For a rubric of their questions: {offered}"]
    return command_line("accord import", files if len(files) <= MOST_NAMED else ["."]), said if labels else []


def _content_of(path: Path) -> str:
    """Return the content of a file: conversations, labels, scores, ...; an empty text for something else."""
    from accord.formats import sniff

    try:
        return sniff(str(path)).content
    except BadInput:
        return ""


def _written(files: dict[str, str], prompts: Path | None) -> dict[str, list[str]]:
    """Write the files that are not there yet; which were written, and which kept."""
    if prompts is not None:
        from accord.methods import PROMPTS, shipped

        prompts.mkdir(parents=True, exist_ok=True)
        files |= {str(prompts / f"{name}.md"): shipped(name) for name in PROMPTS}
    written = [name for name, text in files.items() if _write_new(Path(name), text)]
    if "accord.yaml" in written:
        from accord.edges import own_project

        own_project(Path())
    return {"written": written, "kept": sorted(set(files) - set(written))}


def _write_new(path: Path, text: str) -> bool:
    if path.exists():
        return False
    path.write_text(text, encoding="utf-8")
    return True


def _text(result: Mapping[str, Any]) -> str:
    lines = [f"wrote {name}" for name in result["written"]] + [f"kept {name} as it is" for name in result["kept"]]
    lines += [f"changed {line}" for line in result.get("changed", ())]
    for row in result.get("questions", ()):
        mark = " (main)" if row["question"] == result["main"] else ""
        shown = f"; shown as {row['name']}" if row["name"] else ""
        about = f"{row['kind']}, {row['scale']}; {count_of(row['labels'], 'label')}{shown}"
        lines.append(f"  {row['question']}{mark}: {about}")
    lines += [f"rated by: {result['rated_by']}"] if "rated_by" in result else []
    lines += [f"note: {sentence}" for sentence in result.get("said", ())]
    return "\n".join([*lines, *([f"Next: {result['next']}"] if result["next"] else [])])


_TRUSTED = {
    "addresses": "sends data to", "files": "keeps data in", "code": "runs the code of", "keys": "keys in .env",
    "variables": "variables in .env",
}  # fmt: skip
"""Words for the kinds of things that trust in a project covers."""


@command("trust")
def trust(
    folder: Annotated[
        Path, typer.Argument(help="Folder of the project, with its accord.yaml, or of an evaluator.")
    ] = Path(),
    withdraw: Annotated[bool, typer.Option("--withdraw", help="Trust the folder no longer.")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Ask no question.")] = False,
) -> None:
    """Trust the project in a folder: its addresses, its code, and all variables and keys of its .env file.

    Prints them first, and asks if there is a terminal. Needed once for a project from another person. Projects that you
    create are trusted.
    """
    from accord.edges import escape_controls, trust_folder, trusted_file
    from accord.project import covered_by_trust

    if not withdraw:
        if not any((folder / name).is_file() for name in ("accord.yaml", "evaluator.json")):
            raise BadInput(f"no accord.yaml in {folder.absolute()}; name the folder of a project or an evaluator")
        for kind, names in covered_by_trust(folder).items():
            if names:
                # In full and unredacted: a long list or a "secret" could hide a name.
                print(escape_controls(f"{_TRUSTED[kind]}: {', '.join(names)}"), file=sys.stderr)
        if can_ask() and not yes:
            typer.confirm(f"Trust the project in {folder.resolve()}?", abort=True, err=True)
    trust_folder(folder, trusted=not withdraw)
    say(f"{'no longer trusted' if withdraw else 'trusted'}: {folder.resolve()} (in {trusted_file()})")


@command("plugins")
def plugins(as_json: AsJson = False) -> None:
    """List formats, metrics, sources, judges, heads, selectors, rivals, presets and rubrics, each in one line.

    In a project, the list includes its own plug-ins.
    """
    from accord.project import load_config

    load_config()  # notes the plug-ins
    show(_plugins(), as_json, _plugins_text)


@command("schema")
def schema() -> None:
    """Print the JSON Schema of accord.yaml."""
    from accord.project import json_schema

    print(json.dumps(json_schema(), indent=1))


def _plugins_text(result: Mapping[str, Any]) -> str:
    sections = (
        "\n".join([kind, *(f"  {name:20} {says}" for name, says in found.items())])
        for kind, found in result.items()
        if found
    )
    return "\n\n".join(sections)


def _plugins() -> dict[str, dict[str, str]]:
    """Return the description of every format, metric, source, head, policy, selector, rival, preset and rubric."""
    from accord.evidence import metrics, sources, turn_metrics
    from accord.formats import formats
    from accord.learning import PRESETS, heads
    from accord.methods import rivals, selection_policies, selectors
    from accord.models import judge_modes
    from accord.redaction import recognizers
    from accord.values import load_rubric, shipped_rubrics

    return {
        "formats": {name: _first_line(plugin.convert) for name, plugin in formats},
        "metrics": {name: _first_line(plugin) for name, plugin in [*metrics, *turn_metrics]},
        "sources": {name: _first_line(plugin) for name, plugin in sources},
        "judges": {name: _first_line(plugin) for name, plugin in judge_modes},
        "recognizers": {name: _first_line(plugin) for name, plugin in recognizers},
        "heads": {name: _first_line(plugin) for name, plugin in heads},
        "selection policies": {name: _first_line(plugin) for name, plugin in selection_policies},
        "selectors": {name: _first_line(plugin) for name, plugin in selectors},
        "rivals": {name: _first_line(plugin) for name, plugin in rivals},
        "presets": {
            name: f"head {about.head} on {', '.join(about.sources) or 'the evidence of the project'}"
            for name, about in PRESETS.items()
            if about.head in heads
        },
        "rubrics": {name: f"{len(load_rubric(name).questions)} questions" for name in shipped_rubrics()},
    }


def _first_line(plugin: Any) -> str:
    return (inspect.getdoc(plugin) or "").split("\n")[0]
