"""Golden outputs of the shipped sample through the command line and the server; `ACCORD_WRITE_GOLDEN=1` rewrites them.

Numbers are compared at six digits. Prose, dates, paths, digests and versions may change; names and numbers may not.
"""

from __future__ import annotations

import html
import json
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sample_project import SampleProject, post_live, rate_next, sample_project

from accord import Project
from accord.project import load_config

pytest.importorskip("fastapi", reason="needs accord[serve]")
pytestmark = pytest.mark.defaults

GOLDEN = Path(__file__).with_name("golden")
ABSENT = "(absent)"
UNSTABLE = {"id", "run", "file", "digest", "answer", "seconds"}
PATTERNS = {
    r"version:[^|]*": "version:*",
    r"\b[0-9a-f]{8,64}\b": "*",
    r"\d{4}-\d\d-\d\dT[\d:.]+(Z|\+00:00)?": "*",
    r"127\.0\.0\.1:\d+|localhost:\d+": "*",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SampleProject]:
    with sample_project(tmp_path_factory.mktemp("golden")) as opened:
        yield opened


def report_tables(text: str) -> list[list[list[Any]]]:
    """Rows of each table: the first word, then the numbers of all other cells."""
    found = []
    for table in re.findall(r"<table.*?</table>", text, re.DOTALL):
        rows = [[html.unescape(re.sub(r"<[^>]+>", " ", cell)) for cell in re.findall(r"<td.*?</td>", row, re.DOTALL)]
                for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)]  # fmt: skip
        numbers = [re.findall(r"-?\d+(?:\.\d+)?", " ".join(row[1:]).replace("−", "-")) for row in rows]
        names = [" ".join(row[:1]).split()[:1] for row in rows]
        found.append([[*name, *map(float, row)] for name, row in zip(names, numbers, strict=True) if name])
    return found


def plain(value: Any) -> Any:
    """The value without what legitimately varies, numbers with six digits."""
    if isinstance(value, dict):
        return {plain(str(key)): plain(each) for key, each in value.items() if key not in UNSTABLE}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else str(value)
    if isinstance(value, str):
        for pattern, other in PATTERNS.items():
            value = re.sub(pattern, other, value)
        return "<text>" if " " in value else "<path>" if value.startswith("/tmp") else value
    return value


def differences(now: Any, before: Any, where: str = "") -> list[str]:
    """Places at which two values differ by more than rounding."""
    if isinstance(now, dict) and isinstance(before, dict):
        keys = sorted(now.keys() | before.keys())
        return [
            text
            for key in keys
            for text in differences(now.get(key, ABSENT), before.get(key, ABSENT), f"{where}/{key}")
        ]
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [
            text for i, pair in enumerate(zip(now, before, strict=True)) for text in differences(*pair, f"{where}/{i}")
        ]
    numbers = all(isinstance(each, int | float) for each in (now, before))
    is_same = math.isclose(now, before, rel_tol=1e-5, abs_tol=1e-7) if numbers else now == before
    return [] if is_same else [f"{where}: {now!r}, golden: {before!r}"]


def check_golden(name: str, value: Any) -> None:
    """Compare with a golden file, or write it."""
    path, now = GOLDEN / f"{name}.json", plain(value)
    if os.environ.get("ACCORD_WRITE_GOLDEN"):
        one_line = re.sub(
            r"[\[{]\n[^\[\]{}]*[\]}]", lambda found: " ".join(found[0].split()), json.dumps(now, indent=1)
        )
        path.write_text(f"{one_line}\n", "utf-8")
    assert not differences(now, json.loads(path.read_text("utf-8")))


def test_compare_fit_and_report_are_as_before(project: SampleProject) -> None:
    check_golden("compare", project.outputs["compare"])
    check_golden("fit", project.outputs["fit"])
    check_golden("report", report_tables((project.folder / "report.html").read_text("utf-8")))


def test_scores_board_and_annotations_are_as_before(project: SampleProject) -> None:
    check_golden("scores-file", project.scored("new.jsonl", "new-scores.jsonl", "mixture"))
    check_golden("scores-parts", project.scored("new.jsonl", "new-parts/", "mixture"))
    with project.served("mixture") as browser:
        check_golden("board", json.loads(browser.get("/board.json")))
        check_golden("scores-live", post_live(browser, project.rows("new.jsonl")[:4]))
        predictions = [rate_next(browser, "mixture", value) for value in (1, 3)]
    project("export", "annotations.jsonl", "--kind", "person")
    rated = [row | {"by": "*"} for row in project.rows("annotations.jsonl") if row.get("study") == "mixture"]
    rated.sort(key=lambda row: (row["conversation"], row["question"]))
    check_golden("annotations", {"predictions": predictions, "rows": rated})


@pytest.fixture(scope="module", params=["every", "gated"])
def paths(project: SampleProject, request: pytest.FixtureRequest) -> dict[str, Any]:
    """Scores of the same replies by each path, and the workbench's predictions in percent."""
    name, chats, pages = request.param, project.rows("replies.jsonl"), []
    with Project(load_config(project.folder / "accord.yaml")) as opened:
        opened.use(name)  # a new fit would learn from the ratings of the other study, and predict none blindly
    rows = {
        "file": project.scored("replies.jsonl", f"{name}.jsonl", name),
        "parts": project.scored("replies.jsonl", f"{name}-parts/", name),
    }
    with project.served(name) as browser:
        rows["live"] = post_live(browser, [{**chat, "id": f"{chat['id']}-live"} for chat in chats])
        for id in (chat["id"] for chat in chats):
            found = {"predictions": {"state": "waiting"}}
            while found["predictions"]["state"] == "waiting":
                found = json.loads(browser.get(f"/conversation/{id}.json"))
            pages.append({**found["whole"]["questions"][0]["prediction"], "conversation": id})
        predictions = [rate_next(browser, name) for _ in chats]
    return {"evaluator": name, **rows, "page": pages, "prediction": predictions}


def parts_of_scores(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the parts of a score that every path shares: mean, band, distribution and other questions."""
    names = ("value", "low", "high", "band_low", "band_high", "distribution")
    by_reply = {row["conversation"].removesuffix("-live"): row for row in rows}
    return {
        "score": {id: plain({name: row[name] for name in names}) for id, row in by_reply.items()},
        "questions": {id: plain((row["notes"] or {}).get("other_questions")) for id, row in by_reply.items()},
    }


@pytest.mark.parametrize(
    ("path", "part"),
    [*((path, part) for path in ("parts", "live", "page") for part in ("score", "questions")), ("prediction", "score")],
)
def test_one_reply_has_one_score(paths: dict[str, Any], path: str, part: str) -> None:
    own, found = parts_of_scores(paths["file"]), paths[path]
    assert len(own["score"]) == 2
    assert all(bool(each) == (paths["evaluator"] == "every") for each in own["questions"].values())
    if path == "prediction":  # the page shows whole percents, and items come in the order of the study
        shares = [each["distribution"].items() for each in own["score"].values()]
        rounded = [{option: round(100 * share) for option, share in each} for each in shares]
        assert sorted(found, key=str) == sorted(rounded, key=str)
    else:
        assert not differences(parts_of_scores(found)[part], own[part])
