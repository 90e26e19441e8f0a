"""Settings page: the main question can be chosen; all other settings are shown in words, with the place to change them.

No secret is shown: no address of a database, an endpoint or a webhook, and no key.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from accord.edges import BadInput, is_inside, validation_messages
from accord.project import Config
from accord.values import InvalidStudy, Rubric
from accord.web.context import WorkbenchContext, add_page
from accord.web.erasing import last_erasures
from accord.web.pages.rubric import changed_files, rubric_on_disk
from accord.web.project_editing import FilesChanged

PAGE = "/settings"
_SYNTHETIC = {
    "without": "left out of training and statistics",
    "with": "used like others",
    "only": "the only ones in use",
}
_OTHER_SCALES = {
    "stop": "stop a fit with an error", "leave-out": "are left out", "map": "are mapped to the present scale",
    "keep": "are kept as they are",
}  # fmt: skip

_KEPT = {"conversations": "conversations", "rated": "conversations with ratings", "replies": "cached replies of models"}
ERASURES_SHOWN = 10
"""Number of erasures on the page."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the settings page and its form."""
    pages = _SettingsPages(context)
    add_page(app, PAGE, pages.overview)
    app.post(PAGE)(pages.change)


class _SettingsPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request) -> Response:
        """Show the settings of the project."""
        visitor = self.context.visitor(request, "lead")
        project, files = self.context.project, self.context.files
        rubric, problem = project.rubric, ""
        try:
            rubric = rubric_on_disk(self.context)
        except BadInput as error:
            problem = str(error)
        can_write = files is not None and files.exists and not problem
        config = project.config
        data = {
            "main": project.question.id, "questions": [each.id for each in rubric.questions if not each.compares],
            "guidelines": rubric.instructions, "studies": _studies(config), "settings": described_settings(config),
            "erasures": last_erasures(self.context, ERASURES_SHOWN),
        }  # fmt: skip
        return self.context.render_or_json(
            request, "settings", visitor, data, rubric=rubric, problem=problem, can_write=can_write,
            shown=files.digest(changed_files(files, rubric)) if files is not None and can_write else "",
            folder=(config.folder if files is None else files.folder).absolute().name,
        )  # fmt: skip

    async def change(self, request: Request) -> Response:
        """Choose the main question, as a new version of the rubric."""
        _, fields = await self.context.read_form(request, "lead")
        await run_in_threadpool(self._change, fields)
        return RedirectResponse(f"{PAGE}?done=settings", 303)

    def _change(self, fields: Mapping[str, Any]) -> None:
        main, rubric, files = str(fields.get("main", "")), rubric_on_disk(self.context), self.context.project_files()
        question = rubric.get(main)
        if question is None or question.compares:
            allowed = ", ".join(each.id for each in rubric.questions if not each.compares)
            raise BadInput(f"main question: got {main[:60]!r}, allowed: {allowed}")
        if main == rubric.main:
            return
        try:
            same = {name: getattr(rubric, name) for name in Rubric.model_fields}
            changed = changed_files(files, Rubric(**{**same, "main": main}))
        except ValueError as error:
            raise BadInput(validation_messages(error)[0]) from None
        if files.digest(changed) != fields.get("shown"):
            raise FilesChanged
        files.change(changed, str(fields["shown"]), self.context.reload)


def _studies(config: Config) -> list[dict[str, str]]:
    return [
        {"study": name, "title": study.title or name, "guidelines": study.guidelines}
        for name, study in config.studies.items()
        if not isinstance(study, InvalidStudy)
    ]


def described_settings(config: Config) -> list[dict[str, str]]:
    """Return settings in words: a name, a text without secrets, and the key in accord.yaml."""
    rows: list[dict[str, str]] = []

    def add(name: str, text: str, key: str) -> None:
        rows.append({"name": name, "text": text, "key": key})

    add("Conversations and ratings", _store_in_words(config), "store")
    models = [f"{role}: {model_in_words(each.model)}" for role, each in sorted(config.models.items())]
    add("Models", "; ".join(models) or "none, so no text is sent to one", "models")
    add("Metrics", ", ".join(config.metrics) or "none", "metrics")
    add("Evaluator to fit", config.evaluator, "evaluator")
    repeats = f"{config.repeats} times" if config.repeats > 1 else "once"
    add(
        "Validation",
        f"{config.folds} folds, repeated {repeats}; {config.draws:,} bootstrap samples; seed {config.seed}",
        "folds, repeats, draws, seed",
    )
    if config.group_by:
        add("Never divided by a split", ", ".join(config.group_by), "group_by")
    add("Synthetic conversations", _SYNTHETIC.get(config.synthetic, config.synthetic), "synthetic")
    add("Ratings on another scale", _OTHER_SCALES.get(config.other_scales, config.other_scales), "other_scales")
    add("Budget of a run", _budget_in_words(config), "budget")
    webhook = "sent to an address that is not shown here" if config.monitoring.webhook else "shown on the board only"
    add("Alarms of live scoring", webhook, "monitoring")
    privacy = config.privacy.model_dump(mode="json")
    kept = [f"{_KEPT[name]} {time}" for name, time in privacy["retention"].items() if time is not None]
    add("Kept for", ", ".join(kept) or "until erased", "privacy.retention")
    add("Metadata that name a user", ", ".join(privacy["user"]) or "unknown", "privacy.user")
    add("Plug-ins", ", ".join(map(str, config.plugins)) or "none", "plugins")
    return rows


def _store_in_words(config: Config) -> str:
    if config.store.startswith("postgresql"):
        return "in a PostgreSQL database"
    name = config.store.partition("///")[2]
    if name in ("", ":memory:"):
        return "in memory, until the server stops"
    path = Path(name) if Path(name).is_absolute() else config.folder / name
    return f"in the file {path.name}{'' if is_inside(path, config.folder) else ', outside the project folder'}"


def model_in_words(model: str | None) -> str:
    """Return the name of a model; of a file or folder only the last part."""
    if not model:
        return "recorded answers"
    return f"{model.partition(':')[0]}:{Path(model).name}" if "/" in model and ":" in model else model


def _budget_in_words(config: Config) -> str:
    budget = config.budget
    caps = [
        *([f"{budget.requests:,} requests"] if budget.requests is not None else []),
        *([f"{budget.tokens:,} tokens"] if budget.tokens is not None else []),
        *([f"{budget.money:g} in money"] if budget.money is not None else []),
    ]
    return f"at most {', '.join(caps)}" if caps else "no limit"
