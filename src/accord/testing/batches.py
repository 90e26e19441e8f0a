"""A provider of batches on the loopback: takes batch files, takes its time, and answers a line at a time."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from accord.testing.server import Respond, Wire

FORM_END = b"\r\n--"


class Batches:
    """Answers the batch wire; each line of a batch file is answered by `respond`.

    A batch is in progress for `looks` looks at it and then `ends` as said: `completed`, or `failed` or `expired`
    without results.
    """

    def __init__(self, respond: Respond, looks: int = 1, ends: str = "completed") -> None:
        self.respond, self.looks, self.ends = respond, looks, ends
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}

    def __call__(self, request: Mapping[str, Any]) -> Wire:
        """The answer to a request on any of the batch paths; other paths are `respond`'s."""
        path = request["_path"].split("?")[0]
        parts = path.strip("/").split("/")
        if path.endswith("/files"):
            return self._file(request["_form"])
        if path.endswith("/batches"):
            return self._made(request) if "endpoint" in request else self._listed()
        if parts[-2:-1] == ["batches"]:
            return self._looked(parts[-1])
        if parts[-1] == "content":
            return Wire(self.files[parts[-2]], headers={"Content-Type": "application/octet-stream"})
        return self.respond(request)

    def _file(self, form: bytes) -> Wire:
        start = form.index(b'{"custom_id"')
        name = f"file-{len(self.files)}"
        self.files[name] = form[start : form.index(FORM_END, start)]
        about = {"id": name, "object": "file", "bytes": len(form), "created_at": 0, "filename": "accord.jsonl"}
        return Wire({**about, "purpose": "batch", "status": "processed"})

    def _made(self, request: Mapping[str, Any]) -> Wire:
        name = f"batch-{len(self.batches)}"
        total = len(self.files[request["input_file_id"]].splitlines())
        about = {"id": name, "object": "batch", "endpoint": request["endpoint"], "created_at": 0}
        self.batches[name] = {
            **about,
            "input_file_id": request["input_file_id"],
            "completion_window": "24h",
            "metadata": request.get("metadata"),
            "status": "validating",
            "request_counts": {"total": total, "completed": 0, "failed": 0},
            "looks": 0,
        }
        return Wire(self.batches[name])

    def _listed(self) -> Wire:
        return Wire({"object": "list", "data": list(reversed(self.batches.values())), "has_more": False})

    def _looked(self, name: str) -> Wire:
        if name not in self.batches:
            return Wire({"error": {"message": "no such batch"}}, status=404)
        batch = self.batches[name]
        batch["looks"] += 1
        if batch["looks"] <= self.looks:
            batch["status"] = "in_progress"
        elif batch["status"] != self.ends:
            batch["status"] = self.ends
            if self.ends == "completed":
                self._answer(batch)
        return Wire(batch)

    def _answer(self, batch: dict[str, Any]) -> None:
        good: list[str] = []
        bad: list[str] = []
        for line in self.files[batch["input_file_id"]].splitlines():
            asked = json.loads(line)
            wire = self.respond({**asked["body"], "_path": asked["url"]})
            body = wire.body if isinstance(wire.body, Mapping) else {}
            row = {
                "custom_id": asked["custom_id"],
                "response": {"status_code": wire.status, "body": body},
                "error": None,
            }
            (good if wire.status == 200 else bad).append(json.dumps(row))
        for kind, lines in (("output_file_id", good), ("error_file_id", bad)):
            if lines:
                name = f"file-{len(self.files)}"
                self.files[name] = "\n".join(lines).encode()
                batch[kind] = name
        batch["request_counts"] |= {"completed": len(good), "failed": len(bad)}
