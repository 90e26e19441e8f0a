"""Import page: upload conversations and labels, watch the import, and undo imports.

It is the first page of a folder without a project.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, RedirectResponse, Response

from accord.edges import BadInput, format_size
from accord.project import remove_judgements
from accord.sample import sources
from accord.store import Imports
from accord.web.accounts import TOKEN, check_same_origin, check_token
from accord.web.context import WorkbenchContext, add_page
from accord.web.uploads import MAX_UPLOAD, UPLOAD_PATH, UploadedFile, parse_multipart, save_uploads

MAX_LISTED = 50
"""Number of imports on the page."""


def add_routes(app: FastAPI, context: WorkbenchContext) -> None:
    """Add the import page and its forms."""
    pages = _ImportPages(context)
    add_page(app, "/import", pages.overview)
    app.post(UPLOAD_PATH)(pages.upload)
    app.post("/import/example")(pages.example)
    app.post("/import/undo")(pages.undo)


class _ImportPages:
    def __init__(self, context: WorkbenchContext) -> None:
        self.context = context

    def overview(self, request: Request) -> Response:
        """Show the form, the state of the latest upload, and earlier imports."""
        visitor = self.context.visitor(request, "lead")
        context, uploads = self.context, self.context.uploads
        data = {
            "is_new": context.files is not None and not context.files.exists,
            "is_running": uploads.is_running,
            "upload": None if uploads.state is None else asdict(uploads.state),
            "waiting": uploads.is_running,
            "imports": [_row(each.to_json()) for each in Imports(context.project.store).known()[::-1][:MAX_LISTED]],
            "conversations": context.project.store.count_conversations(),
        }
        return context.render_or_json(
            request, "imports", visitor, data, can_upload=context.files is not None, limit=format_size(MAX_UPLOAD),
            folder="" if context.files is None else context.files.folder.absolute().name,
        )  # fmt: skip

    async def upload(self, request: Request) -> Response:
        """Save uploaded files and start their import; scripts receive the next address as JSON."""
        check_same_origin(request.headers, request.url.scheme)
        visitor = await run_in_threadpool(self.context.visitor, request, "lead")
        kind = request.headers.get("content-type", "")
        fields, files = await run_in_threadpool(parse_multipart, await request.body(), kind)
        check_token(fields.get(TOKEN, ""), visitor.key)
        await run_in_threadpool(self._start, fields, files)
        return JSONResponse({"next": "/import"}) if "x-accord-form" in request.headers else _to_page()

    def _start(self, fields: Mapping[str, str], files: list[UploadedFile]) -> None:
        context = self.context
        project_files = context.project_files()
        if not files:
            raise BadInput("no file chosen; choose files of conversations or labels, such as chats.jsonl or labels.csv")
        if context.uploads.is_running:
            raise BadInput("another import is running; wait until it ends")
        paths = save_uploads(files, project_files.folder)
        skips = fields.get("skip") == "on"
        context.uploads.start(context.project, project_files, paths, skips, context.reload)

    async def example(self, request: Request) -> Response:
        """Start the import of the sample that ships with Accord into a project without conversations."""
        await self.context.read_form(request, "lead")
        await run_in_threadpool(self._example)
        return _to_page()

    def _example(self) -> None:
        context = self.context
        if context.project.store.count_conversations():
            raise BadInput("the project has conversations already; the example is for a new project")
        context.uploads.start(context.project, context.project_files(), sources(), False, context.reload)

    async def undo(self, request: Request) -> Response:
        """Undo an import, as `accord import --undo` does."""
        _, fields = await self.context.read_form(request, "lead")
        id = str(fields.get("id", ""))
        if not id:
            raise BadInput("the form names no import; reload the page")
        await run_in_threadpool(self._undo, id)
        return RedirectResponse("/import?done=undone", 303)

    def _undo(self, id: str) -> None:
        imports = Imports(self.context.project.store)
        record, _ = imports.undo(id)
        remove_judgements(imports.files_of(record), self.context.project_files().path)


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return the numbers of an import as the page shows them, with the names of its files."""
    results = record["results"] or {}
    counts = {kind: (results.get(kind) or {}).get("new") for kind in ("conversations", "labels")}
    names = [Path(file).name for file in record["files"]]
    return {"id": record["id"], "started": record["started"], "status": record["status"], "files": names, **counts}


def _to_page() -> Response:
    return RedirectResponse("/import", 303)
