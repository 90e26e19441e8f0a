"""Documentation runs: Python blocks, the quickstart's commands, and the generated pages."""

from __future__ import annotations

import importlib.util
import json
import re
import runpy
import shlex
import shutil
import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from pydoc import locate
from typing import Any

import pytest
import small_sample
import yaml
from processes import Forked
from served_workbench import Browser
from typer.testing import CliRunner
from waiting import PATIENCE, until

import accord
from accord.cli.app import app
from accord.evidence import metrics, sources, turn_metrics
from accord.formats import formats, read, read_labels, sniff, source_of
from accord.learning import heads
from accord.methods import rivals, selection_policies, selectors
from accord.models import judge_modes
from accord.values import Question, Rubric, Scale, read_rubric

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))


@pytest.fixture(autouse=True)
def the_sample_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty of its conversations show that a page runs."""
    monkeypatch.setattr("accord.sample.sources", small_sample.sources)


@pytest.fixture(autouse=True)
def plug_ins_stay_as_they_are() -> Iterator[None]:
    """Remove the plug-ins that a page or an example registers."""
    registries = (formats, judge_modes, metrics, turn_metrics, sources, heads, selection_policies, selectors, rivals)
    before = [set(each.names()) for each in registries]
    yield
    for registry, known in zip(registries, before, strict=True):
        for name in set(registry.names()) - known:
            registry.forget(name)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), flags=re.M | re.S)


WITH_COMMANDS = ("README.md", "quickstart.md", "calibrate.md")
"""Pages whose Python blocks run between their commands, in tests of their own."""


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page, "python") and page.name not in WITH_COMMANDS],
    ids=lambda page: page.name,
)
def test_python_blocks_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)


def steps(page: Path, *titles: str) -> list[tuple[str, str]]:
    """Language and text of each block that a reader runs or writes, in order; with titles, of these sections only."""
    found = []
    for section in re.split(r"^(?=## )", page.read_text(encoding="utf-8"), flags=re.M):
        if not titles or section.partition("\n")[0].removeprefix("## ") in titles:
            found += re.findall(r"^```(sh|yaml|python)\n(.*?)^```", section, flags=re.M | re.S)
    return found


def run_command(line: str) -> None:
    """Run a documented command with `$SAMPLE` replaced; a server is started, used and stopped."""
    program, *arguments = shlex.split(line.replace("$SAMPLE", str(small_sample.sources()[0].parent)), comments=True)
    assert program == "accord"
    if arguments[0] == "serve":
        use_server(arguments)
        return
    unproven = ["--allow-unproven"] if arguments[0] == "gate" else []  # the small sample proves less than the whole one
    result = CliRunner().invoke(app, [*arguments, *unproven])
    assert result.exit_code == 0, f"{line}\n{result.output}\n{result.stderr}"
    if link := re.search(r"/in/(\S+)", result.stdout):
        Path("key").write_text(link[1], encoding="utf-8")


def use_server(arguments: list[str]) -> None:
    """Start a documented server, open a study as an annotator, score a reply, and stop the server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open("serve.log", "w", encoding="utf-8") as log:
        process = Forked(["-m", "accord", *arguments, "--port", str(port)], stdout=log, stderr=log)
    try:
        until(lambda: answers(port) or process.poll() is not None, Path("serve.log").read_text)
        assert process.poll() is None, Path("serve.log").read_text(encoding="utf-8")
        browser = Browser(port)
        browser.post("/in", key=Path("key").read_text(encoding="utf-8"))
        page = browser.get("/rate/first-look/next")
        assert browser.status == 200 and 'name="form"' in page, page
        messages = [{"conversation": "c", "role": "user", "content": "Can I return it?"},
                    {"conversation": "c", "role": "assistant", "content": "Yes, within 45 days of delivery [1]."}]  # fmt: skip
        printed = re.search(r"token of live scoring.*: (\S+)", Path("serve.log").read_text(encoding="utf-8"))
        assert printed is not None
        headers = {"Content_Type": "application/json", "Authorization": f"Bearer {printed[1]}"}
        _, said, _ = browser.ask("POST", "/v1/scores", json.dumps({"messages": messages}), **headers)
        assert json.loads(said)["scores"][1]["status"] == "scored", said
    finally:
        process.terminate()
        code = process.wait(PATIENCE)
    assert code == 0, Path("serve.log").read_text(encoding="utf-8")


def answers(port: int) -> bool:
    try:
        return Browser(port).ask("GET", "/healthz")[0] == 200
    except OSError:
        return False


def write_settings(block: str) -> None:
    """Add the settings of a block to accord.yaml, as its reader does."""
    path = Path("accord.yaml")
    path.write_text(
        yaml.safe_dump({**yaml.safe_load(path.read_text(encoding="utf-8")), **yaml.safe_load(block)}), encoding="utf-8"
    )


def test_readme_and_quickstart_run_in_one_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    monkeypatch.delenv("ACCORD_TOKEN", raising=False)
    monkeypatch.setenv("ACCORD_MODELS", str(tmp_path / "models"))
    chats, labels = small_sample.sources()
    for source, name in ((chats, "chats.jsonl"), (chats, "new.jsonl"), (labels, "labels.csv")):
        shutil.copy(source, name)
    found = [
        *steps(ROOT / "README.md", "Score your own conversations", "Python"),
        *steps(ROOT / "docs" / "quickstart.md"),
    ]
    lines = [line for kind, block in found if kind == "sh" for line in block.splitlines()]
    names: dict[str, object] = {}
    for kind, block in found:
        if kind == "sh":
            for line in block.splitlines():
                run_command(line)
        elif kind == "yaml":
            write_settings(block)
        else:
            exec(compile(block, "a documented block", "exec"), names)
    in_order = [block for kind, block in found if kind == "python"]
    assert in_order == [*blocks(ROOT / "README.md", "python"), *blocks(ROOT / "docs" / "quickstart.md", "python")]
    assert len(lines) >= 17 and sum("accord serve" in line for line in lines) == 2
    assert Path("report.html").exists() and Path("scores.parquet").exists() and Path("accord-demo/report.html").exists()


def test_guide_of_calibration_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind, block in steps(ROOT / "docs" / "calibrate.md"):
        for line in block.splitlines() if kind == "sh" else ():
            run_command(line)
        if kind == "python":
            exec(compile(block, "calibrate.md", "exec"), {})
    assert Path("evaluators/default/evaluator.json").exists() and Path("judgments").is_dir()


def test_every_command_of_the_readme_exists() -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M)
    known = {registered.name for registered in [*app.registered_commands, *app.registered_groups]} | {"paper"}
    for block in blocks(ROOT / "README.md", "sh"):
        for line in block.splitlines():
            program, first, *_ = line.split()
            assert (
                (program == "make" and first in targets) or (program == "accord" and first in known) or program == "pip"
            )


@pytest.mark.defaults
def test_generated_pages_are_those_of_this_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # the pages describe the sample's own function
    spec = importlib.util.spec_from_file_location("write_docs", ROOT / "tools" / "write_docs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name, page in module.PAGES.items():
        assert (ROOT / "docs" / name).read_text(encoding="utf-8") == page(), "run: make docs"


def test_example_of_data_formats_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    files = re.findall(r"`([\w.]+)`:\n\n```(?:json|csv|text)\n(.*?)^```", text, flags=re.M | re.S)
    assert len(files) == text.count("`:\n\n```") == 5
    for name, content in files:
        Path(name).write_text(content, encoding="utf-8")
    for _, block in steps(ROOT / "docs" / "data.md"):
        for line in block.splitlines():
            run_command(line)
    rows = [json.loads(line) for line in Path("annotations.jsonl").read_text(encoding="utf-8").splitlines()]
    assert Counter(row["conversation"] for row in rows) == {"c1": 3, "c2": 2, "c3": 1}
    assert [row["value"] for row in rows if row.get("turn") == 1] == [1, 0]
    with accord.open("accord.yaml") as project:
        assert [each.system for each in project.store.conversations()] == ["bot-2", "bot-2", None]


def test_columns_of_data_formats_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "data.md").read_text(encoding="utf-8")
    table = text.partition("| role | names |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", table, flags=re.M)
    assert len(rows) == 14
    for role, cell in rows:
        for name in re.findall(r"`(\w+)`", cell):
            assert is_read_as(role, name), f"{name} is not read as {role}"


def is_read_as(role: str, name: str) -> bool:
    """Return True if a column with a name has the same effect as the column of a role, in labels or conversations."""
    messages = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}]
    label = {"conversation": "c", "turn": 0, "annotator": "ann", "question": "good", "value": 1, "time": "2026-01-01"}
    exchange = {"conversation": "c", "prompt": "Hello.", "response": "Hi.", "documents": "Some text."}
    kinds: list[list[dict[str, Any]]] = [
        [label],
        [{**label, "question": "better", "against": "d"}],
        [{"conversation": "c", **each, "time": "2026-01-01"} for each in messages],
        [exchange],
        [{"conversation": "c", "messages": messages, "system": "bot"}],
    ]
    return any(
        content_of(rows)
        == content_of([{name if key == role else key: value for key, value in row.items()} for row in rows])
        for rows in kinds
        if role in rows[0]
    )


def content_of(rows: list[dict[str, Any]]) -> Any:
    """Return the labels or conversations in rows, or the error; metadata of conversations only as far as they count."""
    good = Question(id="good", text="Good?", scale=Scale(options=(1, 2)))
    better = Question(id="better", text="Better?", scale=Scale(options=(1, 2)), applies="pairs")
    rubric = Rubric(name="r", main="good", questions=(good, better))
    table = source_of(rows)
    if sniff(table).content == "labels":
        return [repr(each) for each in read_labels(table, rubric)]
    found = [each.conversation for each in read(table)]
    assert all(each.turns for each in found)
    return [(each.id, each.turns, each.documents, each.system) for each in found]


@pytest.mark.parametrize("page", [*PAGES, *NOTEBOOKS], ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for link, anchor in re.findall(r"\]\((?!https://)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        target = page.parent / link if link else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), f"{link}#{anchor}"


def test_statements_of_the_comparison_have_sources() -> None:
    text = (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")
    cells = " ".join(re.findall(r"^\|.*\|$", text, flags=re.M))
    assert set(re.findall(r"\[([a-z]\d+)\]", cells)) == set(re.findall(r"^- ([a-z]\d+): ", text, flags=re.M))


OTEL = (ROOT / "src/accord/hosts/otel.py").read_text(encoding="utf-8")
"""Names the attributes of OpenTelemetry records."""
FILES_OF_READERS = {"my_metrics.py", "plugins/own.py"}
"""Files that readers of a page write."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_objects_and_files_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for name, call in set(re.findall(r"`(accord(?:\.[A-Za-z_]\w*)+)(\(\))?`", text)):
        is_attribute = f'"{name}"' in OTEL
        assert is_attribute or name.endswith((".yaml", ".scores")) or locate(name) is not None, name
        assert not call or callable(locate(name)), f"{name} is not a function"
    files = set(re.findall(r"`((?:\w+/)*\w+\.py)\b", text)) - FILES_OF_READERS
    for name in files if page.name != "comparison.md" else ():  # files of other packages
        assert any((ROOT / folder / name).exists() for folder in ("", "src/accord", "benchmarks", "tests")), name


def test_scales_on_pages_are_accepted_in_a_rubric() -> None:
    found = [
        text for page in PAGES for text in re.findall(r"`([^`:]+: [^`]*options: \[[^`]*)`", page.read_text("utf-8"))
    ]
    assert found
    for text in found:
        question = {"id": "main", "text": "Was it helpful?", **yaml.safe_load(f"{{{text}}}")}
        assert read_rubric({"name": "mine", "main": "main", "questions": [question]}, text).main_question.scale.options


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.name)
def test_examples_run(example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(example), run_name="__main__")


def test_gallery_shows_the_pictures_of_its_script() -> None:
    script = runpy.run_path(str(ROOT / "tools" / "screenshots.py"), run_name="screenshots")
    names = script["PICTURES"]
    gallery = ROOT / "docs" / "gallery"
    shown = re.findall(r"\]\((\S+)\.png\)", (gallery / "README.md").read_text(encoding="utf-8"))
    files = {file for name in names for file in script["files_of"](name).values()}
    assert shown == list(names) and {path.name for path in gallery.glob("*.png")} == files
