"""Evidence from models, evaluators, and synthetic conversations: `accord judge`, `fit` and `synth`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from accord.cli.app import PARTLY_UNSCORED, command, stop
from accord.cli.options import BudgetOptions, Planned, ResultOptions, StatisticsOptions
from accord.cli.outputs import EVALUATOR, SYNTHETIC
from accord.cli.terminal import Progress, StageProgress, json_and_text, note, show_each, table
from accord.cli.texts import cost_text, plan_text, spending
from accord.edges import BadInput, BudgetReached, count_of, one_line, parse_whole_number

if TYPE_CHECKING:
    from accord.models import ModelSettings, Plan
    from accord.project import BatchRun, Fitted, JudgeRun, JudgeSelection
    from accord.project.judges import anchors
    from accord.verbs import Project

Run = TypeVar("Run", "JudgeRun", "anchors.AnchorRun")
_SHOWN = 12
"""Metrics that `accord synth --check` prints."""
_NO_RATED = "no conversation has ratings, so none is judged; use --all to judge all conversations"


@command("judge")
def judge(
    budget: BudgetOptions,
    options: StatisticsOptions,
    source: Annotated[
        list[str] | None,
        typer.Option("--source", help="Only this source, such as rubric, likelihood or issues; repeat."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Judge every conversation, not only the rated ones.")
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Judge at most this many.")] = None,
    plan: Planned = False,
    batch: Annotated[
        bool,
        typer.Option("--batch", help="Use the provider's batch files: submit now, fetch later with the same command."),
    ] = False,
    anchors: Annotated[
        bool,
        typer.Option(
            "--anchors",
            help="Judge a fixed sample of rated conversations again, each at most once a day, to tell drift of the "
            "judge from drift of the assistant (`accord watch`).",
        ),
    ] = False,
    longest: Annotated[
        bool, typer.Option("--longest", help="Start with the dialogues that have the most turns.")
    ] = False,
    people: Annotated[
        bool, typer.Option("--people", help="Leave out dialogues in which an animal or a thing speaks.")
    ] = False,
) -> None:
    """Ask the project's models for evidence. Answers are kept; running it again continues where it stopped."""
    from accord.project import JudgeSelection, judge_in_batches, role_costs

    selection = JudgeSelection(everything, limit, longest, people)
    with options.open_counted() as project:
        budget.apply(project)
        _warn_of_small(project.config.models)
        if anchors:
            if source or batch or selection != JudgeSelection(limit=limit):
                raise BadInput("--anchors judges its own sample; of the selections it takes --limit alone")
            _judge_anchors(project, limit, plan, options)
        elif plan:
            planned, measured = project.plan_judge(source or (), selection), role_costs(project)
            options.show(
                {**planned.to_json(), "measured": {role: each.to_json() for role, each in measured.items()}},
                lambda result: "\n".join([plan_text(result), *(
                    f"measured so far: {role} {each.text()} for 1,000 conversations" for role, each in measured.items()
                )]),
            )  # fmt: skip
            if not (planned.questions or planned.answered or everything):
                note(_NO_RATED)
        elif batch:
            if source:
                raise BadInput("--batch asks the judge of the rubric; leave out --source")
            _show_batches(judge_in_batches(project, selection), options)
        else:
            _judge(project, source or (), selection, options)


def _with_progress(
    project: Project,
    options: StatisticsOptions,
    title: str,
    total: int | None,
    run: Callable[[Callable[[], None], Callable[[Run], None]], Run],
    text: Callable[[Run], str],
) -> Run:
    """Show progress during a run, and print its result, also if it stops halfway."""
    stopped: list[Run] = []
    try:
        with spending(project.budget), Progress(title, total) as progress:
            done = run(progress.step, stopped.append)
    finally:
        for halfway in stopped:
            options.show(halfway.to_json(), lambda _: text(stopped[0]))
    options.show(done.to_json(), lambda _: text(done))
    return done


def _judge(project: Project, sources: Sequence[str], selection: JudgeSelection, options: StatisticsOptions) -> None:
    """Ask the models, print the result, and end with an error if questions stayed unanswered."""
    total = project.plan_judge(sources, selection).steps if sys.stderr.isatty() else None
    done = _with_progress(project, options, "judged", total, partial(project.judge, sources, selection), _judged_text)
    if not done.samples and not selection.everything:
        note(_NO_RATED)
    note(*_notices(done))
    if done.failed or done.not_asked:
        stop("some questions stayed unanswered; run the command again to ask for them alone", PARTLY_UNSCORED)


def _judge_anchors(project: Project, limit: int | None, plans: bool, options: StatisticsOptions) -> None:
    """Judge the anchors, or plan it, and end with an error if some were not judged."""
    from accord.project.judges import anchors

    if plans:
        options.show(anchors.plan_anchors(project, limit).to_json(), plan_text)
        return
    run = partial(anchors.judge_anchors, project, limit)
    done = _with_progress(project, options, "anchors judged", limit, run, _anchors_text)
    if done.failed:
        stop("some anchors were not judged; run the command again to judge them alone", PARTLY_UNSCORED)


def _anchors_text(done: anchors.AnchorRun) -> str:
    counts = [f"{done.judged} judged now", f"{done.already} earlier today"]
    counts += [f"{done.elsewhere} by another process"] if done.elsewhere else []
    lines = [f"{count_of(done.anchors, 'anchor')} of {done.evaluator} on {done.day}: {', '.join(counts)}"]
    lines += [f"  {count} not judged: {reason}" for reason, count in done.failed.items()]
    return "\n".join([*lines, "next: accord watch"])


def _show_batches(run: BatchRun, options: StatisticsOptions) -> None:
    """Print the fetched results and the submitted batches."""
    from accord.models import IN_BATCH

    options.show(run.to_json(), lambda _: _batch_text(run))
    if IN_BATCH in run.judged.unanswered:
        stop("some answers are still to come; the same command fetches them", PARTLY_UNSCORED)
    if run.judged.unanswered:
        stop("some questions stayed unanswered, each with its reason", PARTLY_UNSCORED)


def _batch_text(run: BatchRun) -> str:
    from accord.models import UNCONFIRMED

    lines = [_judged_text(run.judged), f"{count_of(run.submitted, 'request')} submitted now"]
    for each in run.batches:
        done = f"{each.total} prompts" if each.status == UNCONFIRMED else f"{each.completed} of {each.total} done"
        lines.append(f"{each.id}: {each.status}, {done}{each.says and f', {each.says}'}")
    lines += [f"  {count} requests of finished batches failed: {reason}" for reason, count in run.failed.items()]
    return "\n".join(lines)


def _warn_of_small(models: Mapping[str, ModelSettings]) -> None:
    """Note each small model among the judges: its likelihoods are good evidence; its verdicts are not."""
    judges = {each.model or "" for role, each in models.items() if role.startswith("judge")}
    for model in sorted(name for name in judges if name.startswith("embedded:")):
        note(
            f"{model} is too small to judge: asked to rate, it agrees with hardly anyone. Its likelihoods are the "
            f"evidence to use: models: {{likelihood: {{model: {model}}}}}"
        )


def _judged_text(done: JudgeRun) -> str:
    left = f", {done.not_asked} not asked" if done.not_asked else ""
    sent = f"{count_of(int(done.spent['requests'] or 0), 'request')} sent in this run"
    lines = [
        f"{count_of(done.samples, 'sample')}: {count_of(done.answered, 'answer')} ({sent}), {done.failed} failed{left}",
        *(f"  {source}: evidence on {count_of(count, 'sample')}" for source, count in done.known.items()),
    ]
    lines += [line for counts in done.counts.values() for line in counts.lines()]
    lines += [f"  {count} without an answer: {reason}" for reason, count in done.unanswered.items()]
    lines += [f"  one rejection: {one_line(done.rejection)}"] if done.rejection else []
    return "\n".join(lines)


def _notices(done: JudgeRun) -> Iterator[str]:
    from accord.models import NOT_RECORDED

    yield from (f"{count_of(count, 'dialogue')}: {why}" for why, count in done.excluded.items())
    for counts in done.counts.values():
        yield from counts.notices()
    if silent := done.unanswered.get(NOT_RECORDED, 0):
        yield f"{count_of(silent, 'question')} without a recorded answer; they stay missing evidence"


@command("fit")
def fit(
    budget: BudgetOptions,
    options: StatisticsOptions,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Evaluators of the project, or presets; default: the setting `evaluator`."),
    ] = None,
    best: Annotated[
        bool, typer.Option("--best", help="Compare all evaluators first, and fit the recommended one.")
    ] = False,
    question: Annotated[
        str | None, typer.Option("--question", help="Learn this question of the rubric instead of the main one.")
    ] = None,
    every_question: Annotated[
        bool,
        typer.Option("--every-question", help="Predict each question of the rubric, from evidence gathered once."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder to save it in; default evaluators/NAME."),
        EVALUATOR,
    ] = None,
    plan: Planned = False,
) -> None:
    """Learn from all labels and print held-out agreement with intervals.

    A source that pays to learn (a written rubric, prompts with examples) is tried on a part that it has not seen;
    everything else is cross-validated.
    """
    with options.open_counted(question) as project:
        budget.apply(project)
        if best and names:
            raise BadInput("--best finds the evaluator to fit; leave out its name")
        wanted = [_best(project)] if best else names or [project.config.evaluator]
        if every_question and question is not None:
            raise BadInput("--every-question learns all questions; leave out --question")
        if out is not None and len(wanted) > 1:
            raise BadInput(f"--out names one folder, and {len(wanted)} evaluators are to be fitted")
        if plan:
            show_each(map(project.plan_fit, wanted), options.as_json, _plan_of)
            return
        lacking: list[str] = []
        show_each(_fitted(project, wanted, out, lacking, every_question), options.as_json, json_and_text)
        if lacking:
            stop("some requests came to nothing, each with its reason", PARTLY_UNSCORED)


def _plan_of(plan: Plan) -> tuple[dict[str, Any], str]:
    found = plan.to_json()
    return found, plan_text(found)


def _best(project: Project) -> str:
    """The evaluator that a comparison says to use."""
    with StageProgress() as steps:
        found = project.compare(on_step=steps.stage)
    note(str(found.decision))
    return found.best


def _fitted(
    project: Project, names: Sequence[str], out: Path | None, lacking: list[str], every_question: bool
) -> Iterator[Fitted]:
    """Fit one after the other; `lacking` takes the names of those whose requests did not all succeed."""
    for name in names:
        with spending(project.budget), StageProgress() as steps:
            done = project.fit(name, out, steps, steps.stage, every_question)
        yield done
        note(*done.cautions)
        if done.retryable:
            note(f"{name}: {done.retryable} requests came to nothing; the same command asks for them alone")
            lacking.append(name)


@command("synth")
def synth(
    budget: BudgetOptions,
    options: ResultOptions,
    topics: Annotated[
        str | None,
        typer.Option("--topics", metavar="FILE|N", help="Topics: a file, or the number of topics to generate."),
    ] = None,
    personas: Annotated[
        str | None, typer.Option("--personas", metavar="FILE|N", help="Who asks: a file, or how many to write.")
    ] = None,
    documents: Annotated[
        str | None, typer.Option("--documents", help="What assistants read: a folder of texts, or a file of rows.")
    ] = None,
    methods: Annotated[
        list[str] | None,
        typer.Option("--method", help="DS1 to DS5; repeat. Default: all that topics and documents allow."),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("--count", "-n", min=1, help="Conversations of each method; default: one for each topic."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write them to this file: .jsonl."), SYNTHETIC
    ] = None,
    plan: Planned = False,
    check: Annotated[
        bool,
        typer.Option("--check", help="Make none: say how unlike real conversations they are, and by what."),
    ] = False,
) -> None:
    """Generate synthetic conversations in five ways; models play the user and the assistant (DS1 to DS5).

    They are kept in the store as each is finished, marked, and counted nowhere unless --synthetic asks for them. Run
    again, the command goes on from where it was, and nothing is paid twice.
    """
    changes: dict[str, Any] = {
        "topics": _named(topics), "personas": _named(personas), "documents": documents, "methods": methods or None,
        "count": count,
    }  # fmt: skip
    with options.open(creates=True) as project:
        budget.apply(project)
        if check:
            if methods and len(methods) > 1:
                stop("--check compares the conversations of one method or of all; name one --method, or none", 1)
            options.show(project.check_synth(methods[0] if methods else None).to_json(), _unlike_text)
            return
        if plan:
            options.show(project.plan_synth(**changes).to_json(), _synth_plan_text)
            return
        total = project.plan_synth(**changes).steps if sys.stderr.isatty() else None
        with spending(project.budget), Progress("replies", total) as progress:
            done = project.synth(out, progress.step, **changes)
        options.show(done.to_json(), _synth_text)
    note(*(f"{reason}: {detail}" for reason, detail in done.examples.items()))
    _stop_where_some_are_missing(done.lost)


def _stop_where_some_are_missing(lost: Mapping[str, int]) -> None:
    from accord.models import OUT_OF_BUDGET

    if OUT_OF_BUDGET in lost:
        raise BudgetReached(
            "the budget is spent; completed conversations are saved. Run again with a larger one to continue."
        )
    if lost:
        stop("some conversations came to nothing, each with its reason; run the command again to try", PARTLY_UNSCORED)


def _named(value: str | None) -> str | int | None:
    number = None if value is None else parse_whole_number(value)
    return value if number is None else number


def _synth_plan_text(result: Mapping[str, Any]) -> str:
    known = f"{result['questions']} replies at most, {result['answered']} already generated"
    return f"{known}\n{cost_text(result)}"


def _synth_text(result: Mapping[str, Any]) -> str:
    about = f"{result['planned']} planned about {result['topics']} topics"
    about += f", {result['personas']} personas" if result["personas"] else ""
    by = ", ".join(f"{count} {how}" for how, count in result["systems"].items())
    lines = [
        f"{count_of(result['made'], 'conversation')} made, {result['there']} there before, of {about}",
        f"  there are now: {by or 'none'}",
    ]
    lines += [f"  {result['duplicates']} left out: nearly the same as another one"] if result["duplicates"] else []
    lines += [f"  {count} lost: {reason}" for reason, count in result["lost"].items()]
    if result["left_out"]:
        lines.append(f"  not made: {', '.join(result['left_out'])}; topics or documents for them are not named")
    lines += [f"  written to {result['out']}"] if result["out"] else []
    return "\n".join([*lines, "They count in no figure unless asked for: --synthetic with"])


def _unlike_text(result: Mapping[str, Any]) -> str:
    rows = [
        [row["metric"], f"{row['synthetic']:.3g}", f"{row['real']:.3g}", f"{row['effect']:+.2f}",
         f"{row['higher']:.0%}", f"{row['p_holm']:.3f}"]
        for row in result["features"][:_SHOWN]
    ]  # fmt: skip
    header = ["metric", "synthetic", "real", "effect (SD)", "higher in", "p (Holm)"]
    rest = len(result["features"]) - len(rows)
    said = result["summary"][:1].upper() + result["summary"][1:]
    about = "AUC: of a synthetic and a real one, how often a classifier finds the synthetic one; 95% interval"
    more = [f"{rest} more metrics in --json"] if rest > 0 else []
    return "\n".join([said, about, "", table(header, rows), *more])
