"""Files beside the code agree with it: versions, systems, commands and links."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

import accord

pytestmark = pytest.mark.repository

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def content(name: str) -> Any:
    return yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    return tool("lock")


def test_lock_file_fits_the_declared_dependencies(lock: ModuleType) -> None:
    assert not lock.misfits(), "renew it: make setup && make lock"
    pinned = {line.partition("==")[0].lower(): line.partition("==")[2] for line in PROJECT["dependency-groups"]["dev"]}
    names = {re.sub(r"\[.*", "", name) for name in pinned}
    assert names and names <= lock.locked().keys(), names - lock.locked().keys()


def test_lock_file_names_what_does_not_fit(lock: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "requirements-dev.lock"
    text = re.sub(r"(?m)^numpy==.*\n", "", lock.LOCK.read_text(encoding="utf-8"))
    other.write_text(re.sub(r"(?m)^ruff==.*", "ruff==0.1", text), encoding="utf-8")
    monkeypatch.setattr(lock, "LOCK", other)
    said = "\n".join(lock.misfits())
    assert "numpy is not in requirements-dev.lock" in said and "ruff==0.1" in said


def test_workflow_runs_the_commands_of_the_makefile_on_every_system() -> None:
    jobs = content(".github/workflows/tests.yml")["jobs"]
    matrix = jobs["tests"]["strategy"]["matrix"]
    assert [each.partition("-")[0] for each in matrix["system"]] == ["ubuntu", "macos", "windows"]
    assert f">={matrix['python'][0]}" == PROJECT["project"]["requires-python"]
    assert matrix["python"] == [f"3.{minor}" for minor in range(11, 15)]
    commands = [step["run"] for step in jobs["tests"]["steps"] if "run" in step]
    made = MAKEFILE.replace("$(BIN)/", "").replace(" || $(AGAIN)", "")
    assert len(commands) == 6 and all(f"\t{command}\n" in made for command in commands), commands
    assert not any("slow" in command.replace("not slow", "") for command in commands)
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100


def test_workflow_divides_the_slow_tests_among_four_jobs_by_their_recorded_time() -> None:
    jobs = content(".github/workflows/tests.yml")["jobs"]
    [readme] = [step["run"] for step in jobs["readme"]["steps"] if "run" in step]
    [slow] = [step for step in jobs["slow"]["steps"] if "run" in step]
    assert readme.endswith(".ci/run quick") and slow["run"].endswith(".ci/run slow")
    shards = jobs["slow"]["strategy"]["matrix"]["shard"]
    options = slow["env"]["SHARD"].split()
    assert shards == list(range(1, int(options[options.index("--splits") + 1]) + 1))
    assert (ROOT / options[options.index("--durations-path") + 1]).is_file()


VERSION = accord.__version__
RELEASES = {  # tag, file, text and its replacement, message
    "other tag": (f"v{VERSION}1", "", "", "", f"states {VERSION}; write {VERSION}1"),
    "no tag": (VERSION, "", "", "", "is no tag of a release"),
    "papers": (
        f"v{VERSION}",
        "packages/accord-papers/src/accord_papers/version.py",
        VERSION,
        "9.9.9",
        "states 9.9.9; write",
    ),
    "citation": (f"v{VERSION}", "CITATION.cff", f"version: {VERSION}", "title: x", "CITATION.cff states no version"),
    "section": (f"v{VERSION}", "CHANGELOG.md", f"## {VERSION} (", "## 9.9.9 (", "CHANGELOG.md has no section of"),
    "date": (f"v{VERSION}", "CHANGELOG.md", f"## {VERSION} (", f"## {VERSION} (soon ", "with soon "),
    "changes": (
        f"v{VERSION}",
        "CHANGELOG.md",
        "# Changelog",
        f"## {VERSION} (2026-01-01)\n\n## Rest (2026-01-01)\n\n",
        "lists no change",
    ),
}


@pytest.mark.parametrize("case", RELEASES)
def test_release_is_refused_if_files_state_another_version(case: str, tmp_path: Path) -> None:
    release = tool("release")
    tag, changed, text, replacement, message = RELEASES[case]
    for name in (*release.STATES_VERSION, "CHANGELOG.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        content = (ROOT / name).read_text(encoding="utf-8")
        if case == "changes":  # the first of two sections counts
            content = re.sub(rf"(?m)^## {re.escape(VERSION)} \(.*\)$", "", content)
        (tmp_path / name).write_text(
            content.replace(text, replacement, 1) if name == changed else content, encoding="utf-8"
        )
    with pytest.raises(SystemExit, match=re.escape(message)):
        release.main(tag, tmp_path)


def test_release_notes_are_the_section_of_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    tool("release").main(f"v{VERSION}")
    notes = capsys.readouterr().out
    section = (
        (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition(f"\n## {VERSION} (")[2].partition("\n## ")[0]
    )
    assert len(notes.splitlines()) == len(section.strip().splitlines()) - 2 and "### First hour" in notes
    links = re.findall(r"\]\(([^)]+)\)", notes)
    assert links and all(link.startswith("https://") for link in links)
    assert f"](https://github.com/accord-eval/accord/blob/v{VERSION}/docs/quickstart.md)" in notes


def test_only_the_jobs_that_publish_can_ask_for_a_token() -> None:
    workflow = content(".github/workflows/release.yml")
    jobs = workflow["jobs"]
    assert workflow["permissions"] == {"contents": "read"} and workflow[True] == {"push": {"tags": ["v*"]}}
    publishing = {name: job for name, job in jobs.items() if job.get("permissions", {}).get("id-token")}
    assert {job["environment"]["name"] for job in publishing.values()} == {"pypi-accord", "pypi-accord-papers"}
    for name, job in jobs.items():
        uses = [step["uses"] for step in job.get("steps", []) if "uses" in step]
        assert all(re.search(r"@(v\d+|release/v\d+)$", each) for each in uses), uses
        assert ("pypa/gh-action-pypi-publish@release/v1" in uses) == (name in publishing)
        assert name not in publishing or job["permissions"] == {"id-token": "write"}
    assert set(jobs["publish-accord"]["needs"]) == {"build", "tests", "cost", "wheels"}
    assert jobs["tests"]["uses"].removeprefix("./") == ".github/workflows/tests.yml"
    assert "workflow_call" in content(".github/workflows/tests.yml")[True]
    commands = [step["run"] for step in jobs["build"]["steps"] if "run" in step]
    assert "make build" in commands and any("tools/release.py" in each for each in commands)


def test_container_has_no_rights_that_it_does_not_need() -> None:
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    final = lines[max(number for number, line in enumerate(lines) if line.startswith("FROM")) :]
    images = [line.split()[1] for line in lines if line.startswith("FROM")]
    assert len(images) == 2 and "AS build" not in final[0]
    assert "USER 10001:10001" in final and not any("pip" in line for line in final)
    assert any(line.startswith("HEALTHCHECK") for line in final) and any("/healthz" in line for line in final)
    copied = {name for line in lines if line.startswith("COPY") and "--from" not in line for name in line.split()[1:-1]}
    kept = [
        line for line in (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines() if line[:1] in {"*", "!"}
    ]
    assert kept[0] == "*" and copied == {line[1:] for line in kept if line.startswith("!")}

    services = content("compose.yaml")["services"]
    images += [service["image"] for service in services.values()]
    assert all(re.search(r":\d+(\.\d+)*", image) for image in images), images
    assert services["accord"]["image"] == f"accord:{VERSION}"
    for service in services.values():
        assert service["read_only"] and service["cap_drop"] == ["ALL"] and not service.get("cap_add")
        assert service["security_opt"] == ["no-new-privileges:true"] and not service.get("privileged")
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for name, value in service["environment"].items():
            secret = any(word in name for word in ("PASSWORD", "TOKEN"))
            assert not secret or re.match(r"\$\{(ACCORD_TOKEN|POSTGRES_PASSWORD):\?", value), name
    assert "healthcheck" in services["postgres"] and services["postgres"]["user"] == "999:999"
    assert services["accord"]["depends_on"]["postgres"]["condition"] == "service_healthy"
    assert ".env" in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()


def test_install_page_lists_every_extra() -> None:
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").partition("| extra |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \| .* \| (yes|no|-) \| .* \|$", page, flags=re.M)
    listed = {name: bundled for names, bundled in rows for name in re.findall(r"`([\w-]+)`", names)}
    extras = PROJECT["project"]["optional-dependencies"]
    [bundle] = re.findall(r"\[(.*)\]", extras["all"][0])
    assert listed == {name: "yes" if name in bundle.split(",") else "no" for name in extras} | {"all": "-"}


def test_hooks_are_local_and_name_files_that_exist() -> None:
    settings = content(".pre-commit-config.yaml")
    assert [each["repo"] for each in settings["repos"]] == ["local"]
    hooks = settings["repos"][0]["hooks"]
    assert {"ruff", "ruff-format"} <= {hook["id"] for hook in hooks}
    for hook in hooks:
        assert hook["language"] == "system" and hook["entry"].startswith("python ")
        for name in re.findall(r"\S+\.py\b", hook["entry"]):
            assert (ROOT / name).is_file(), name


def test_citation_and_security_page_state_this_version() -> None:
    citation = content("CITATION.cff")
    assert citation["version"] == accord.__version__ and citation["license"] == PROJECT["project"]["license"]
    assert citation["abstract"] == PROJECT["project"]["description"]
    assert citation["keywords"] == PROJECT["project"]["keywords"]
    assert [each["name"] for each in citation["authors"]] == [each["name"] for each in PROJECT["project"]["authors"]]
    assert PROJECT["project"]["urls"]["Changelog"].startswith(citation["repository-code"])
    page = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    supported = re.findall(r"^\| ([\d.]+) \| (yes|no) \|$", page, flags=re.M)
    assert supported[0] == (accord.__version__.rpartition(".")[0], "yes")


@pytest.mark.parametrize("name", ["SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", ".github/pull_request_template.md"])
def test_links_of_pages_beside_the_docs_lead_somewhere(name: str) -> None:
    page = ROOT / name
    for link in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_issue_forms_have_unique_fields_and_a_private_address_for_security() -> None:
    forms = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
    assert [each.stem for each in forms] == ["bug", "config", "idea"]
    for form in (content(str(each)) for each in forms if each.stem != "config"):
        fields = [each["id"] for each in form["body"] if "id" in each]
        assert form["name"] and form["description"] and fields and len(fields) == len(set(fields))
    contact = content(".github/ISSUE_TEMPLATE/config.yml")["contact_links"]
    assert contact[0]["url"] in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
