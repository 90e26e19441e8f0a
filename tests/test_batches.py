"""Judging by batch files: submission, waiting, results, and repeated submission of failed requests."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from commands import accord_json, invoke
from misbehaving_endpoint import answer_any, fault
from small_sample import sources
from waiting import PATIENCE

from accord.models import (
    BatchEndpoint,
    CallFailed,
    ChatMessage,
    Prompt,
    batch_files,
    wait,
)
from accord.models.requests import batching
from accord.models.requests.client import ChatCompletions
from accord.project.judges import batch_judging
from accord.testing import ChatServer
from accord.testing.server import (
    Batches,
    Wire,
)

ODD = [b'{"custom_id": "s256:odd", "response": null, "error": "expired"}', b'{"custom_id": "x", "response": "oops"}']


def judged(code: int, *more: str) -> dict[str, Any]:
    return dict(accord_json("judge", "--batch", "--limit", "4", *more, code=code))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api_key: None) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def configure(url: str, mode: str = "logprobs", timeout: float = 60) -> None:
    judge = {"mode": mode, "model": "m1", "base_url": url, "samples": 3, "timeout": timeout}
    Path("accord.yaml").write_text(json.dumps({"models": {"judge": judge}}), encoding="utf-8")
    invoke("import", *map(str, sources()))


@pytest.mark.parametrize("mode", ["logprobs", "sampling", "verbalised"])
def test_batch_run_submits_waits_and_fetches(project: Path, mode: str) -> None:
    provider = Batches(answer_any)
    with ChatServer(provider) as server:
        configure(server.url, mode)
        first = judged(5)
        asked = first["submitted"]
        assert asked and first["answered"] == 0 and first["unanswered"].keys() == {"in batch"}
        assert [batch["status"] for batch in first["batches"]] == ["validating"]
        second = judged(5)
        assert second["submitted"] == 0, "prompts of an open batch are not submitted again"
        assert second["batches"][0]["status"] == "in_progress"
        third = judged(0)
        assert third["answered"] and not third["unanswered"] and third["submitted"] == 0
        assert third["batches"][0]["completed"] == asked
        fourth = judged(0)
        assert first["requests"] == {"m1": asked} and first["spent"]["requests"] == asked
        assert (second["spent"]["requests"], fourth["spent"]["requests"]) == (0, 0) and not fourth["batches"]
        assert len(provider.batches) == 1
        assert not [r for r in server.requests if r["_path"].endswith("/chat/completions")]
        now = accord_json("judge", "--limit", "4")
        assert not now["requests"], "asked at once or by batch: the same answers"


def test_batches_of_several_judges_are_fetched_once_each(project: Path) -> None:
    provider = Batches(answer_any, looks=0)
    with ChatServer(provider) as server:
        configure(server.url)
        content = json.loads(Path("accord.yaml").read_text(encoding="utf-8"))
        content["models"]["judge-second"] = {**content["models"]["judge"], "model": "m2"}
        Path("accord.yaml").write_text(json.dumps(content), encoding="utf-8")
        first = judged(5)
        assert first["requests"] == {"m1": first["submitted"] // 2, "m2": first["submitted"] // 2}
        assert len(provider.batches) == 2 and first["answered"] == 0
        second = judged(0)
        assert second["answered"] == first["submitted"] and second["submitted"] == 0
        assert len(provider.batches) == 2, "no prompt is submitted twice"


@pytest.mark.attack
def test_failed_requests_are_counted_and_submitted_again(project: Path) -> None:
    seen: list[str] = []

    def moody(request: Any) -> Wire:
        text = request["messages"][0]["content"]
        seen.append(text)
        if seen.count(text) == 1 and len(seen) % 3 == 0:
            return Wire({"error": {"message": "sk-secret"}}, status=500)
        if seen.count(text) == 1 and len(seen) % 3 == 1:
            return Wire({"no": "choices"})
        return answer_any(request)

    with ChatServer(Batches(moody, looks=0)) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        second = judged(5)
        assert sum(second["failed_requests"].values()) == second["submitted"] > 0
        assert second["failed_requests"].keys() == {"HTTP 500", "malformed"}
        assert second["answered"] == asked - second["submitted"]
        assert judged(0)["answered"] == asked


def test_expired_batch_is_submitted_again(project: Path) -> None:
    provider = Batches(answer_any, looks=0, ends="expired")
    with ChatServer(provider) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        second = judged(5)
        assert second["failed_requests"] == {"expired": asked} and second["submitted"] == asked
        provider.ends = "completed"
        assert judged(0)["answered"] == asked


@pytest.mark.attack
def test_refused_and_unknown_batches(project: Path) -> None:
    provider = Batches(answer_any, looks=0, ends="failed")
    with ChatServer(provider) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        refused = invoke("judge", "--batch", "--limit", "4", code=1)
        assert "the provider refused batch-0" in refused.stderr
        provider.ends = "completed"
        assert judged(5)["submitted"] == asked, "submitted again on request"
        provider.batches.clear()
        gone = judged(5)
        assert gone["failed_requests"] == {"gone": asked} and gone["submitted"] == asked
        assert judged(0)["answered"] == asked


def test_refused_request_is_not_submitted_again(project: Path) -> None:
    refusing = fault("refusal", {"_path": "/chat/completions"}, Wire({}))
    with ChatServer(Batches(lambda request: refusing, looks=0)) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        for _ in range(2):
            again = judged(5)
            assert again["submitted"] == 0 and again["unanswered"] == {"refused": asked}


def test_sampled_answer_waits_for_all_replies(project: Path) -> None:
    class Halting(Batches):
        def _answer(self, batch: dict[str, Any]) -> None:
            super()._answer(batch)
            if len(self.batches) == 1:
                name = batch["output_file_id"]
                self.files[name] = b"\n".join(self.files[name].splitlines()[::2])

    with ChatServer(Halting(answer_any, looks=0)) as server:
        configure(server.url, "sampling")
        asked = judged(5)["submitted"]
        second = judged(5)
        assert second["submitted"] == asked // 2 and second["unanswered"].keys() == {"in batch"}
        assert judged(0)["answered"] * 3 == asked


OTHER_LINE = '{"custom_id": "s256:other", "response": {"status_code": 200, "body": {}}}\n'


class DamagedResults(Batches):
    """Serves `content` in place of each result file until `is_damaged` is False."""

    def __init__(self, content: bytes) -> None:
        super().__init__(answer_any, looks=0)
        self.content, self.is_damaged = content, True

    def __call__(self, request: Any) -> Wire:
        found = super().__call__(request)
        if self.is_damaged and request["_path"].endswith("/content"):
            return Wire(self.content, headers={"Content-Type": "text/html"})
        return found


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"<html>\n<b>502 Bad Gateway</b>\n</html>", "it starts with '<html> <b>502 Bad Gateway"),
        (b'{"custom_id": "s256:\n{broken\n[]\n7\n', "it starts with"),
        (OTHER_LINE.encode() * 3, "it starts with"),
        (b"", "it is empty"),
    ],
    ids=["html", "broken", "other-batch", "empty"],
)
@pytest.mark.attack
def test_unreadable_result_file_is_downloaded_again_and_its_prompts_are_not_resubmitted(
    project: Path, content: bytes, reason: str
) -> None:
    provider = DamagedResults(content)
    with ChatServer(provider) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        for _ in range(2):
            damaged = judged(5)
            assert (
                damaged["submitted"] == 0
                and not damaged["failed_requests"]
                and damaged["unanswered"] == {"in batch": asked}
            )
            [state] = damaged["batches"]
            file = provider.batches["batch-0"]["output_file_id"]
            assert state["status"] == "completed" and f"result file {file}" in state["says"]
            assert reason in state["says"]
        result = invoke("judge", "--batch", "--limit", "4", code=5)
        assert f"result file {file}: no line is a JSON object" in result.stdout
        provider.is_damaged = False
        assert judged(0)["answered"] == asked and len(provider.batches) == 1


@pytest.mark.attack
def test_judge_without_batch_answers_the_prompts_of_an_unreadable_result_file(project: Path) -> None:
    provider = DamagedResults(b"<html>")
    with ChatServer(provider) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        assert "`accord judge` without --batch" in judged(5)["batches"][0]["says"]
        invoke("judge", "--limit", "4")
        done = judged(0)
        assert done["answered"] == asked and done["submitted"] == 0 and len(provider.batches) == 1


def test_completed_batch_without_result_file_is_not_submitted_again(project: Path) -> None:
    provider = Batches(answer_any, looks=0)
    with ChatServer(provider) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        provider._looked("batch-0")
        file = provider.batches["batch-0"].pop("output_file_id")
        waiting = judged(5)
        assert waiting["submitted"] == 0 and "no result file" in waiting["batches"][0]["says"]
        provider.batches["batch-0"]["output_file_id"] = file
        assert judged(0)["answered"] == asked


@pytest.mark.parametrize(("keep", "cause"), [(1, "no result line"), (None, "result file gone")])
def test_requests_without_result_line_are_resubmitted_with_a_cause(project: Path, keep: int | None, cause: str) -> None:
    provider = Batches(answer_any, looks=0)

    def respond(request: Any) -> Wire:
        if request["_path"].endswith("file-1/content"):
            if keep is None:
                return Wire({"error": {"message": "no such file"}}, status=404)
            return Wire(b"\n".join(provider.files["file-1"].splitlines()[:keep]))
        return provider(request)

    with ChatServer(respond) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        provider._looked("batch-0")
        provider.files["file-1"] = provider.files.pop(provider.batches["batch-0"]["output_file_id"])
        provider.batches["batch-0"]["output_file_id"] = "file-1"
        second = judged(5)
        assert second["failed_requests"] == {cause: asked - (keep or 0)} and second["submitted"] == asked - (keep or 0)


class LosingAnswers(Batches):
    """Loses the answer to the first submission; lists its batch only from the `listed_at`-th list on."""

    def __init__(self, is_started: bool = True, listed_at: int = 1, page: int = 1000, seconds: float = 0) -> None:
        super().__init__(answer_any, looks=0)
        self.is_started, self.listed_at, self.page, self.seconds = is_started, listed_at, page, seconds
        self.lost, self.lists = 0, 0

    def _made(self, request: Any) -> Wire:
        if self.lost:
            return super()._made(request)
        self.lost += 1
        answer = super()._made(request) if self.is_started else Wire(b"{" * 50)
        return Wire(answer.body, close_after=None if self.seconds else 5, after=self.seconds)

    def __call__(self, request: Any) -> Wire:
        if not request["_path"].split("?")[0].endswith("/batches") or "endpoint" in request:
            return super().__call__(request)
        self.lists += 1
        listed = [each for name, each in reversed(self.batches.items()) if name != "batch-0"]
        if self.lists >= self.listed_at and self.is_started:
            listed.append(self.batches["batch-0"])
        after = parse_qs(urlsplit(request["_path"]).query).get("after", [""])[0]
        start = next((place + 1 for place, each in enumerate(listed) if each["id"] == after), 0)
        data = listed[start : start + self.page]
        return Wire({"object": "list", "data": data, "has_more": start + self.page < len(listed)})


@pytest.mark.parametrize(("listed_at", "seconds"), [(1, 0), (2, 3), (3, 0)], ids=["cut", "timeout", "cut-late"])
@pytest.mark.attack
def test_batch_with_lost_answer_is_found_later_and_paid_once(project: Path, listed_at: int, seconds: float) -> None:
    provider = LosingAnswers(listed_at=listed_at, seconds=seconds)
    with ChatServer(provider) as server:
        configure(server.url, timeout=2)
        lost = invoke("judge", "--batch", "--limit", "4", code=1)
        assert "the same command looks for it" in lost.stderr
        for _ in range(listed_at - 1):
            waiting = judged(5)
            assert waiting["submitted"] == 0 and waiting["unanswered"].keys() == {"in batch"}
            assert [batch["status"] for batch in waiting["batches"]] == ["unconfirmed"]
        found = judged(5)
        assert found["submitted"] == 0 and found["batches"][0]["id"] == "batch-0"
        assert judged(0)["answered"] and len(provider.batches) == 1


@pytest.mark.attack
def test_batch_with_lost_answer_is_submitted_again_after_the_grace_period(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = LosingAnswers(is_started=False)
    with ChatServer(provider) as server:
        configure(server.url)
        invoke("judge", "--batch", "--limit", "4", code=1)
        assert judged(5)["submitted"] == 0 and not provider.batches
        monkeypatch.setattr(batch_judging, "GRACE", timedelta(seconds=-1))
        assert judged(5)["submitted"] and judged(0)["answered"] and len(provider.batches) == 1


def test_batch_listed_after_the_grace_period_is_still_fetched(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    provider = LosingAnswers(listed_at=2, page=1)
    with ChatServer(provider) as server:
        configure(server.url)
        invoke("judge", "--batch", "--limit", "4", code=1)
        monkeypatch.setattr(batch_judging, "GRACE", timedelta(seconds=-1))
        asked = judged(5)["submitted"]
        assert asked and len(provider.batches) == 2
        provider.batches["batch-1"] |= {"id": "of-others", "metadata": None}
        provider.batches["of-others"] = provider.batches.pop("batch-1")
        late = judged(5)
        assert late["failed_requests"] == {"gone": asked} and late["submitted"] == 0
        assert judged(0)["answered"] == asked and len(provider.batches) == 2


@pytest.mark.parametrize(("path", "status"), [("/files", 500), ("/batches", 400), ("/batches", 429)])
def test_batch_that_was_certainly_not_started_is_submitted_at_once(project: Path, path: str, status: int) -> None:
    provider = Batches(answer_any, looks=0)
    is_down = True

    def failing(request: Any) -> Wire:
        if is_down and request["_path"].endswith(path) and ("_form" in request or "endpoint" in request):
            return Wire({"error": {"message": "no"}}, status)
        return provider(request)

    with ChatServer(failing) as server:
        configure(server.url)
        invoke("judge", "--batch", "--limit", "4", code=1)
        is_down = False
        assert judged(5)["submitted"] and judged(0)["answered"] and len(provider.batches) == 1


@pytest.mark.parametrize("path", ["/files", "/batches"])
def test_concurrent_processes_submit_each_prompt_once(project: Path, path: str) -> None:
    provider = Batches(answer_any, looks=0)
    beside: list[dict[str, Any]] = []

    def asked_meanwhile(request: Any) -> Wire:
        if not beside and request["_path"].endswith(path) and ("_form" in request or "endpoint" in request):
            beside.append({})
            beside.append(judged_elsewhere())
        return provider(request)

    with ChatServer(asked_meanwhile) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        assert asked and beside[1]["submitted"] == 0 and beside[1]["unanswered"] == {"in batch": asked}
        assert len(provider.batches) == 1
        done = judged(0)
        assert done["answered"] == asked and done["submitted"] == 0


def judged_elsewhere() -> dict[str, Any]:
    """Run the same command in another process at the same time."""
    command = [sys.executable, "-m", "accord", "judge", "--batch", "--json", "--limit", "4"]
    found = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert found.returncode == 5, found.stderr
    return json.loads(found.stdout)  # type: ignore[no-any-return]


@pytest.mark.attack
def test_results_with_unknown_keys_are_ignored(project: Path) -> None:
    class Confused(Batches):
        def _answer(self, batch: dict[str, Any]) -> None:
            super()._answer(batch)
            name = batch["output_file_id"]
            lines = [json.loads(line) for line in self.files[name].splitlines()]
            for line in lines[:5]:
                line["custom_id"] = "s256:other"
            self.files[name] = b"\n".join(
                [*(json.dumps(line).encode() for line in lines), b"{broken", b"[]", b"7", *ODD]
            )

    with ChatServer(Confused(answer_any, looks=0)) as server:
        configure(server.url)
        asked = judged(5)["submitted"]
        second = judged(5)
        assert second["answered"] == asked - 5 and second["submitted"] == 5


SOUND = {"id": "b1", "status": "completed", "output_file_id": "f1"}


@pytest.mark.parametrize(
    "wrong",
    [{}, {"id": 5}, {"id": "../../x"}, {"id": "a\x1b[31m"}, {"status": ["completed"]}, {"status": "x" * 100_000},
     {"output_file_id": 5}, {"output_file_id": "../secrets"}, {"error_file_id": "a b\n"}],
    ids=str,
)  # fmt: skip
@pytest.mark.attack
def test_invalid_batch_description_is_a_failure(wrong: dict[str, Any], api_key: None) -> None:
    said = {**SOUND, **wrong} if wrong else []
    with ChatServer(lambda request: Wire(said)) as server:  # type: ignore[arg-type]
        wire = ChatCompletions("m1", server.url)
        with pytest.raises(CallFailed, match="malformed"):
            wait(BatchEndpoint(wire).look("b1"))
        wait(wire.close())


@pytest.mark.attack
def test_batch_description_with_invalid_counts(api_key: None) -> None:
    odd = {"request_counts": {"completed": "many", "failed": -1, "total": 3}, "metadata": 7}
    said = {**SOUND, **odd, "errors": {"data": [{"message": "no\x1b[31m" + "x" * 100_000}, {"message": 5}]}}
    listed = {"object": "list", "data": [said, {**SOUND, "metadata": {"accord": "mine"}}]}
    with ChatServer(lambda request: Wire(said if "b1" in request["_path"] else listed)) as server:
        wire = ChatCompletions("m1", server.url)
        found = wait(BatchEndpoint(wire).look("b1"))
        mine = wait(BatchEndpoint(wire).marked({"mine", "other"}))
        wait(wire.close())
    assert (found.completed, found.failed, found.total) == (0, 0, 3)
    assert len(found.says) < 500 and "\x1b" not in found.says
    assert mine.keys() == {"mine"} and mine["mine"].id == "b1"


def test_wrong_input(project: Path) -> None:
    def refused(*more: str) -> str:
        result = invoke("judge", "--batch", *more, code=None)
        assert result.exit_code in {1, 4} and result.stderr.count("\n") == 1 and "sk-secret" not in result.output
        return result.stderr

    Path("accord.yaml").write_text("folds: 3\n", encoding="utf-8")
    assert "batches need a judge" in refused()
    Path("accord.yaml").write_text(
        "models: {judge: {mode: decisions, model: m1, base_url: 'http://127.0.0.1:9/v1'}}\n", encoding="utf-8"
    )
    assert "no batches for 'm1' by decisions" in refused()
    with ChatServer(lambda request: Wire({"error": {"message": "sk-secret"}}, status=404)) as server:
        configure(server.url)
        assert "has no model 'm1', or no such route" in refused()
    with ChatServer(lambda request: Wire({"id": "file-1"} if request["_path"].endswith("/files") else {})) as server:
        configure(server.url)
        assert "200 without a valid batch" in refused()
    with ChatServer(lambda request: Wire({"error": {"message": "sk-secret"}}, status=401)) as server:
        configure(server.url)
        assert "refused the key" in refused()
    with ChatServer(Batches(answer_any)) as server:
        configure(server.url)
        assert "the budget of 3 requests" in refused("--max-requests", "3")
        assert not server.requests, "nothing is handed in that the budget does not cover"


def test_batch_files_keep_the_limits_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    pending = {f"k{i}": Prompt((ChatMessage("user", "x" * 100 * i),)) for i in range(10)}
    monkeypatch.setattr(batching, "MOST_REQUESTS", 4)
    files = list(batch_files(pending, "m1"))
    assert [len(keys) for keys, _ in files] == [4, 4, 2]
    monkeypatch.setattr(batching, "MOST_BYTES", 900)
    files = list(batch_files(pending, "m1"))
    assert [key for keys, _ in files for key in keys] == list(pending)
    assert all(len(lines) <= 900 or len(keys) == 1 for keys, lines in files)
    line = json.loads(files[0][1].splitlines()[0])
    assert line["custom_id"] == "k0" and line["url"] == "/v1/chat/completions" and line["body"]["model"] == "m1"
