"""Projects of other people: owners of files, variables of `.env` and of settings, and addresses that a project names."""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from misbehaving_endpoint import answer_any
from small_sample import sources
from special_files import make_link, make_pipe
from typer.testing import CliRunner

import accord
from accord import open as open_project
from accord.cli import commands  # noqa: F401 - registers the commands
from accord.cli.app import app  # noqa: F401 - registers the commands
from accord.edges import (
    AccordError,
    BadInput,
    NotSent,
    ask_with,
    check_address,
    is_trusted,
    note_addresses,
    trust_folder,
    trusted_file,
    write_atomically,
)
from accord.live import post_alarms
from accord.project import load_config
from accord.project.environment import ALLOWED
from accord.store import Store
from accord.testing import ChatServer, sample_project
from accord.values import find_project_file

SECRET = "sk-of-the-server-12345"
AWAY = "https://llm.example.org/v1"
STRANGER = 4242
"""An account that no test machine has."""
needs_root = pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() != 0, reason="only root can give files to another account"
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty project folder as working folder, and a record of trust of its own."""
    monkeypatch.setenv("ACCORD_CONFIG", str(tmp_path / "configuration"))
    for name in ("ACCORD_TRUST", "ACCORD_STORE", "OPENAI_BASE_URL", "SUDO_UID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    folder = tmp_path / "project"
    (folder / "deep").mkdir(parents=True)
    folder.chmod(0o755)  # with any umask
    monkeypatch.chdir(folder)
    before = dict(os.environ)
    yield folder
    for name in set(os.environ) - set(before):
        del os.environ[name]


def write(text: str, name: str = "accord.yaml") -> None:
    Path(name).write_text(text, encoding="utf-8")


def ran(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


# --- ${NAME} in settings ----------------------------------------------------------------------------------------------


@pytest.mark.attack
def test_texts_of_studies_and_synthetic_conversations_are_never_replaced() -> None:
    write(
        "studies: {look: {title: '${OPENAI_API_KEY}', guidelines: 'Use ${PATH}', items: {filter: {model: '${X}'}},"
        " chat: null}}\nsynth: {subject: '${OPENAI_API_KEY}'}\n"
    )
    config = load_config()
    assert config.broken_studies == {}
    assert SECRET not in config.model_dump_json() and config.studies["look"].title == "${OPENAI_API_KEY}"


def test_settings_of_connections_are_replaced_and_marked_in_the_schema(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "here")
    write(
        "store: 'sqlite:///${PLACE}.db'\nmart: '${PLACE}.scores'\nmonitoring: {webhook: 'https://${PLACE}/x'}\n"
        "models: {judge: {mode: logprobs, model: m, base_url: 'http://${PLACE}/v1'}}\n"
        "studies: {talk: {chat: {topics: [x], assistants: {a: {model: m, base_url: 'http://${PLACE}/v1'}}}}}\n"
    )
    config = load_config()
    chat = config.studies["talk"].chat
    assert (config.store, config.mart, config.monitoring.webhook) == (
        "sqlite:///here.db",
        "here.scores",
        "https://here/x",
    )
    assert config.models["judge"].base_url == chat.assistants["a"].base_url == "http://here/v1"
    schema = json.loads((Path(__file__).parents[1] / "docs/accord.schema.json").read_text(encoding="utf-8"))
    marked = {name for name, about in schema["properties"].items() if about.get("x-environment")}
    marked |= {f"{kind}.{name}" for kind, about in schema["$defs"].items()
               for name, each in about.get("properties", {}).items() if each.get("x-environment")}  # fmt: skip
    hosts = {f"HostConfig.{name}" for name in ("url", "api_key", "public_key", "secret_key", "project")}
    assert marked == {
        "store",
        "mart",
        "ModelSettings.base_url",
        "Assistant.base_url",
        "WatchConfig.webhook",
        "WatchConfig.otel",
        *hosts,
    }


@pytest.mark.attack
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("models: {judge: {mode: logprobs, model: '${OPENAI_API_KEY}'}}", "models.judge.model"),
        ("rubric: '${OPENAI_API_KEY}'", "rubric"),
        ("budget: {shared: 'a ${OPENAI_API_KEY}'}", "budget.shared"),
        ("group_by: ['${OPENAI_API_KEY}']", "group_by.0"),
        ("sources: {issues: {taxonomy: '${OPENAI_API_KEY}'}}", "sources.issues.taxonomy"),
        ("synth: {documents: '${OPENAI_API_KEY}'}", "synth.documents"),
    ],
)
def test_other_settings_that_name_a_variable_are_errors(text: str, key: str) -> None:
    write(text)
    with pytest.raises(BadInput, match="replaced only in settings of connections") as error:
        load_config()
    assert f"{key}: " in str(error.value) and "models.NAME.base_url" in str(error.value)
    assert SECRET not in str(error.value) and "OPENAI" not in str(error.value)


@pytest.mark.attack
def test_errors_of_settings_name_neither_a_variable_nor_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLACE", "postgresql://ada:lovelace-1815@[broken/db")
    for store in ("${NOT_SET_ANYWHERE_1}", "${PLACE}"):
        write(f"store: '{store}'")
        with pytest.raises(AccordError) as error:
            open_project()
        assert "NOT_SET" not in str(error.value) and "PLACE" not in str(error.value)
        assert "lovelace" not in str(error.value)


# --- .env -------------------------------------------------------------------------------------------------------------


@pytest.mark.attack
@pytest.mark.parametrize(
    "name",
    ["TPU_LIBRARY_PATH", "PJRT_NAMES_AND_LIBRARY_PATHS", "XLA_FLAGS", "FSSPEC_S3", "FSSPEC_S3_ENDPOINT_URL",
     "NUMBA_CACHE_DIR", "FORWARDED_ALLOW_IPS", "RAY_ADDRESS", "PYTHONPATH", "LD_PRELOAD", "DYLD_INSERT_LIBRARIES",
     "BROWSER", "SSL_CERT_FILE", "https_proxy", "ALL_PROXY", "CURL_CA_BUNDLE", "GIT_SSH_COMMAND", "IFS", "BASH_ENV",
     "PGHOST", "PGHOSTADDR", "PGPASSFILE", "HOSTALIASES", "CC", "HF_ENDPOINT", "HF_TOKEN", "SSLKEYLOGFILE",
     "AWS_ENDPOINT_URL_S3", "AWS_CONFIG_FILE", "AWS_ACCESS_KEY_ID", "OTEL_EXPORTER_OTLP_HEADERS", "ACCORD_TOKEN",
     "ACCORD_MODELS", "ACCORD_JOBS", "ACCORD_OF_A_PLUGIN", "openai_base_url", "A_NAME_OF_NO_LIBRARY"],
)  # fmt: skip
def test_env_file_sets_listed_variables_until_the_project_is_trusted(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("OPENAI_ORG_ID", raising=False)
    write("draws: 20\n")
    write(f"{name}=of-the-file\nOPENAI_ORG_ID=mine\n", ".env")
    for _ in range(2):
        assert ran("plugins").exit_code == 0
    assert name not in os.environ and os.environ["OPENAI_ORG_ID"] == "mine"
    [message] = [record.message for record in caplog.records]
    assert f".env: left out {name}: they could run code" in message and "accord trust" in message
    assert "of-the-file" not in message
    assert re.search(rf"in \.env: (?:\w+, )*{name}\b", ran("trust").output)
    assert ran("plugins").exit_code == 0 and os.environ[name] == "of-the-file" and len(caplog.records) == 1


def test_page_on_security_lists_the_variables_of_any_project() -> None:
    page = (Path(__file__).parents[1] / "docs" / "security.md").read_text(encoding="utf-8")
    [row] = [line for line in page.splitlines() if line.startswith("| any |")]
    assert set(re.findall(r"`([A-Z_]+)`", row)) == ALLOWED


@pytest.mark.attack
@pytest.mark.parametrize("name", ["ACCORD_TRUST", "ACCORD_CONFIG"])
def test_env_file_never_decides_what_is_trusted(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = os.environ.get(name)
    write("draws: 20\n")
    write(f"{name}=1\n{name.title()}=1\nA_NAME_OF_NO_LIBRARY=1\n", ".env")
    for is_own in (False, True):
        trust_folder(home, is_own)
        assert ran("plugins").exit_code == 0
        assert os.environ.get(name) == before and name.title() not in os.environ
        assert ("A_NAME_OF_NO_LIBRARY" in os.environ) == is_own
    assert f"{name.title()}: these control trust" in caplog.text


@pytest.mark.attack
def test_setting_takes_a_variable_of_the_env_file_that_the_environment_never_gets(home: Path) -> None:
    write("store: 'sqlite:///${TPU_LIBRARY_PATH}.db'\n")
    write("TPU_LIBRARY_PATH=mine\nPGHOST=db.example.org\n", ".env")
    assert ran("users", "add", "ann", "--role", "lead").exit_code == 0
    assert (home / "mine.db").is_file() and "TPU_LIBRARY_PATH" not in os.environ


@pytest.mark.attack
def test_trust_shows_what_it_covers_in_full(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    write(
        "plugins: [my_metrics.py, a.module]\npush: {langfuse: {}, phoenix: {url: 'http://localhost:1'}}\n"
        "models: {judge: {mode: logprobs, model: m, base_url: 'https://${NAME_OF_A_HOST}/v1'}}\nsources: {no: {}}\n"
    )
    many = "".join(f"M{n}=1\n" for n in range(900))
    write(f"{many}XLA_FLAGS=1\nNAME_OF_A_HOST=llm.example.org\nA_KEY=XLA_FLAGS\nOPENAI_API_KEY=k\n", ".env")
    for arguments in (["trust"], ["trust", "--yes"]):
        said = ran(*arguments).output
        assert "sends data to: https://cloud.langfuse.com, https://llm.example.org\n" in said
        assert "runs the code of: my_metrics.py, a.module\n" in said and "keys in .env: A_KEY, OPENAI_API_KEY\n" in said
        assert "M0, M1," in said and "M450, M451" in said and "M899, XLA_FLAGS, NAME_OF_A_HOST\n" in said
    assert is_trusted(home)
    write("a: [\n")
    assert ran("trust").exit_code == 1, "what cannot be shown is not trusted"


# --- files outside the folder -----------------------------------------------------------------------------------------


@pytest.mark.attack
@pytest.mark.parametrize(
    ("settings", "env"),
    [
        ("store: 'sqlite:///{away}/accord.db'", ""), ("store: 'sqlite+pysqlite:///{away}/accord.db'", ""),
        ("store: '{away}/accord.db'", ""), ("store: '../away/accord.db'", ""), ("store: 'sqlite:///link.db'", ""),
        ("store: 'sqlite:///file:{away}/accord.db?uri=true'", ""), ("mart: '{away}/scores'", ""), ("mart: ../away", ""),
        ("draws: 20", "ACCORD_STORE={away}/accord.db"), ("store: 'sqlite:///${{P}}'", "P={away}/accord.db"),
    ],
)  # fmt: skip
def test_data_outside_the_folder_of_a_project_need_a_confirmation(home: Path, settings: str, env: str) -> None:
    """The store could be another project's, which the settings on retention would then erase."""
    away = home.parent / "away"
    away.mkdir()
    make_link(home / "link.db", away / "accord.db")
    write(settings.format(away=away))
    write(env.format(away=away), ".env")
    with pytest.raises(NotSent) as error, accord.open() as project:
        project.mart  # noqa: B018 - opens it
    assert "nothing was written to " in str(error.value) and str(away) in str(error.value)
    assert (
        f"keeps data there, outside its folder, and you have not confirmed it. If you know it: accord trust {home}"
        in (str(error.value))
    )
    if "mart" not in settings:
        assert "keeps data there" in ran("users", "add", "ann", "--role", "lead").output
    assert not list(away.iterdir())
    assert f"keeps data in: {'file:' if 'uri' in settings else ''}{away}" in ran("trust").output
    if "uri" not in settings:
        assert ran("users", "add", "ann", "--role", "lead").exit_code == 0


def test_store_that_the_user_chose_may_be_anywhere(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("store: /nowhere/accord.db")
    monkeypatch.setenv("ACCORD_STORE", str(home.parent / "mine.db"))
    assert ran("users", "add", "ann", "--role", "lead").exit_code == 0 and (home.parent / "mine.db").is_file()


# --- evaluators -------------------------------------------------------------------------------------------------------


@pytest.mark.attack
def test_address_of_an_evaluator_needs_a_confirmation_in_all_processes(home: Path) -> None:
    """The card of an evaluator names the endpoints of its sources, and scoring a folder takes them from there."""
    server = ChatServer(answer_any)
    with (
        server,
        sample_project(6, models={"judge": {"mode": "logprobs", "model": "m", "base_url": server.url}}) as made,
    ):
        made.judge()
        shutil.copytree(made.fit("judge-expected").folder, home / "evaluators" / "default")
    card = home / "evaluators" / "default" / "evaluator.json"
    about = json.loads(card.read_text(encoding="utf-8"))
    about["models"]["judge"]["base_url"] = "https://judge.invalid/v1"
    card.write_text(json.dumps(about), encoding="utf-8")
    write("draws: 20\n")
    (home / "chats").mkdir()
    messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    for name in ("a", "b"):
        write(json.dumps({"id": name, "messages": messages}) + "\n", f"chats/{name}.jsonl")
    for workers in ("1", "2"):
        ran("score", "chats", "--out", f"parts{workers}", "--workers", workers)
        parts = list(Path(f"parts{workers}").glob("*.parquet"))
        reasons = [reason for part in parts for reason in pl.read_parquet(part)["unscored"].to_list()]
        assert len(reasons) == 2 and all("nothing was sent to https://judge.invalid" in each for each in reasons)
    assert "sends data to: https://judge.invalid" in ran("trust").output
    assert "sends data to: https://judge.invalid" in ran("trust", "evaluators/default").output


# --- keys of .env -----------------------------------------------------------------------------------------------------

KEYS = "OPENAI_API_KEY=sk-of-a-stranger-1\n"


@pytest.mark.attack
@pytest.mark.parametrize(
    ("settings", "env"),
    [
        ("models: {judge: {mode: logprobs, model: m}}\n", KEYS),
        (f"models: {{judge: {{mode: logprobs, model: m, base_url: '{AWAY}'}}}}\n", KEYS),
        ("models: {judge: {mode: logprobs, model: m}}\n", "OPENAI_ORG_ID=org-of-a-stranger\n"),
        ("models: {judge: {mode: logprobs, model: m}}\n", "OPENAI_PROJECT_ID=project-of-a-stranger\n"),
        ("models: {judge: {mode: logprobs, model: m, base_url: 'https://sk-1@llm.example.org/v1'}}\n", ""),
    ],
)  # fmt: skip
def test_key_of_the_project_needs_a_confirmation(
    home: Path, settings: str, env: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's own endpoint needs none, but the owner of a key can read what is sent with it."""
    monkeypatch.setenv("OPENAI_BASE_URL", AWAY)
    if env == KEYS:
        monkeypatch.delenv("OPENAI_API_KEY")
    write(settings)
    write(env, ".env")
    said = ran("models", "check", "judge")
    assert said.exit_code == 1 and "nothing was sent to https://llm.example.org" in said.output
    assert env.partition("=")[0] in said.output and f"accord trust {home}" in said.output
    assert "stranger" not in said.output


@pytest.mark.attack
def test_confirmed_key_is_for_one_address(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    write("draws: 20\n")
    write(KEYS, ".env")
    load_config()
    asked: list[str] = []
    ask_with(lambda question: asked.append(question) is None)
    for _ in range(2):
        check_address(AWAY, ["OPENAI_API_KEY"])
        check_address(AWAY)
        check_address("http://localhost:1/v1", ["OPENAI_API_KEY"])
    ask_with(None)
    load_config()
    check_address(AWAY, ["OPENAI_API_KEY"])
    assert asked == [
        f"The project in {home} sends data to https://llm.example.org with OPENAI_API_KEY from its file .env. Continue?"
    ]
    with pytest.raises(NotSent, match=r"or set your own OPENAI_API_KEY"):
        check_address("https://api.openai.com/v1", ["OPENAI_API_KEY"])
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user-1")
    check_address("https://api.openai.com/v1", ["OPENAI_API_KEY"])


@pytest.mark.attack
def test_new_project_in_a_folder_with_an_env_file_is_not_trusted(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    write(KEYS, ".env")
    assert ran("init").exit_code == 0
    assert not is_trusted(home) and f"accord trust {home}" in caplog.text
    assert ran("trust").exit_code == 0 and is_trusted(home)


@pytest.mark.attack
def test_env_files_with_odd_characters_end_in_an_error_or_are_read() -> None:
    write("draws: 20\n")
    write("A=1\r\nB=a\x00b\n", ".env")
    with pytest.raises(BadInput, match=r"\.env, line 2: not KEY=VALUE"):
        load_config()
    write("NEL_1=one\x85two\u2028three\nNEL_2='x\x0bLD_PRELOAD=y'\nNEL_3=\xa0\n", ".env")
    trust_folder(Path())
    load_config()
    assert os.environ["NEL_1"] == "one\x85two\u2028three" and os.environ["NEL_2"] == "x\x0bLD_PRELOAD=y"
    assert os.environ["NEL_3"] == "\xa0" and "LD_PRELOAD" not in os.environ


@pytest.mark.attack
def test_env_files_of_very_many_variables_are_refused() -> None:
    write("draws: 20\n")
    write("".join(f"M{n}=1\n" for n in range(100_000)), ".env")
    with pytest.raises(BadInput, match=r"\.env, line 1001: more than 1,000 variables"):
        load_config()


# --- owners -----------------------------------------------------------------------------------------------------------


@pytest.mark.attack
@needs_root
@pytest.mark.parametrize("foreign", ["accord.yaml", ".env", "."])
def test_files_of_another_account_above_the_working_folder_are_refused(
    home: Path, foreign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("draws: 20\n")
    write("OF_A_STRANGER=1\n", ".env")
    os.chown(home / foreign, STRANGER, -1)
    monkeypatch.chdir("deep")
    result = CliRunner().invoke(app, ["users", "list"])
    assert result.exit_code == 1 and "another account owns it" in result.output, result.output
    assert f"accord trust {home}" in result.output and "OF_A_STRANGER" not in os.environ
    with pytest.raises(BadInput, match="another account owns it"):
        accord.open()
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    load_config()
    monkeypatch.delenv("SUDO_UID")
    trust_folder(home)
    assert load_config().draws == 20 and is_trusted(home)
    trust_folder(home, trusted=False)
    monkeypatch.setenv("ACCORD_TRUST", "1")
    assert load_config().draws == 20


@pytest.mark.attack
@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o666, 0o602, 0o664])
@pytest.mark.parametrize("name", ["accord.yaml", ".env"])
def test_a_file_above_that_others_can_write_to_is_refused(
    home: Path, name: str, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("draws: 20\n")
    write("OF_A_STRANGER=1\n", ".env")
    for each in ("accord.yaml", ".env"):
        Path(each).chmod(0o644)
    if mode == 0o664:
        monkeypatch.setattr("accord.edges.trust._is_private_group", lambda account, group: False)
    Path(name).chmod(mode)
    monkeypatch.chdir("deep")
    with pytest.raises(BadInput, match=r"others can write to it, and it is not in the working folder"):
        load_config()
    assert "OF_A_STRANGER" not in os.environ
    (home / name).chmod(0o644)
    assert load_config().draws == 20


@pytest.mark.attack
@pytest.mark.posix
def test_a_link_above_into_a_folder_of_others_is_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = home.parent / "shared"
    shared.mkdir()
    (shared / "accord.yaml").write_text("draws: 20\n", encoding="utf-8")
    (shared / "accord.yaml").chmod(0o644)
    shared.chmod(0o777)
    make_link(home / "accord.yaml", shared / "accord.yaml")
    monkeypatch.chdir("deep")
    with pytest.raises(BadInput, match="others can write to its folder"):
        load_config()
    shared.chmod(0o755)
    assert load_config().draws == 20


@pytest.mark.attack
@pytest.mark.posix
@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_folder_above_that_others_can_write_to_is_refused(
    home: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("draws: 20\n")
    if mode == 0o775:
        monkeypatch.setattr("accord.edges.trust._is_private_group", lambda account, group: False)
    home.chmod(mode)
    assert load_config().draws == 20, "a file of the user in the working folder"
    monkeypatch.chdir("deep")
    with pytest.raises(BadInput, match="others can write to its folder"):
        find_project_file()
    home.chmod(0o755)
    assert find_project_file() == home / "accord.yaml"


@pytest.mark.attack
@needs_root
def test_a_planted_file_in_the_working_folder_is_refused_and_a_folder_of_another_person_is_not(home: Path) -> None:
    write("draws: 20\n")
    os.chown("accord.yaml", STRANGER, -1)
    with pytest.raises(BadInput, match="another account owns it"):
        load_config()
    os.chown(home, STRANGER, -1)
    assert load_config().draws == 20
    home.chmod(0o1777)
    with pytest.raises(BadInput, match="others can write to its folder"):
        load_config()


@pytest.mark.posix
def test_files_of_another_account_are_recognized_without_root(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write("draws: 20\n")
    monkeypatch.chdir("deep")
    monkeypatch.setattr("accord.edges.trust._own_accounts", lambda: {STRANGER})
    with pytest.raises(BadInput, match="another account owns it or its folder"):
        load_config()


def test_the_project_file_above_is_named_once_on_stderr(home: Path) -> None:
    write("draws: 20\n")
    for folder, lines in ((home / "deep", [f"project: {home / 'accord.yaml'}"]), (home, [])):
        done = subprocess.run(
            [sys.executable, "-m", "accord", "users", "list"], cwd=folder, capture_output=True, text=True, check=True
        )
        assert [line for line in done.stderr.splitlines() if line.startswith("project:")] == lines


# --- addresses --------------------------------------------------------------------------------------------------------

FOREIGN = f"models: {{judge: {{mode: logprobs, model: m, base_url: '{AWAY}'}}}}\n"


@pytest.mark.attack
@pytest.mark.parametrize(
    ("text", "env", "address"),
    [
        (FOREIGN, "", AWAY),
        ("monitoring: {webhook: 'https://alarms.example.org/a/b'}\n", "", "https://alarms.example.org/other"),
        ("studies: {t: {chat: {topics: [x], assistants: {a: {model: m, base_url: 'http://10.0.0.7:8000'}}}}}\n", "",
         "http://10.0.0.7:8000/v1"),
        ("store: postgresql://u@db.example.org/x\n", "", "postgresql+psycopg://other@db.example.org/y"),
        ("store: postgresql:///x?host=db.example.org\n", "", "postgresql:///y?host=db.example.org"),
        ("draws: 20\n", f"OPENAI_BASE_URL={AWAY}\n", AWAY),
        ("draws: 20\n", "ACCORD_STORE=postgresql://db.example.org/x\n", "postgresql://db.example.org/x"),
    ],
)  # fmt: skip
def test_addresses_of_a_project_need_a_confirmation(
    home: Path, text: str, env: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(text)
    write(env, ".env")
    load_config()
    with pytest.raises(NotSent, match="you have not confirmed") as error:
        check_address(address)
    assert f"accord trust {home}" in str(error.value) and "ACCORD_TRUST=1" in str(error.value)
    with monkeypatch.context() as context:
        context.setenv("ACCORD_TRUST", "1")
        check_address(address)
    load_config()
    asked: list[str] = []
    ask_with(lambda question: bool(asked.append(question)))
    with pytest.raises(NotSent):
        check_address(address)
    ask_with(lambda question: asked.append(question) is None)
    check_address(address)
    check_address(address)
    ask_with(None)
    load_config()
    check_address(address)
    assert len(asked) == 2 and f"The project in {home} sends data to" in asked[1]
    assert stat.S_IMODE(trusted_file().stat().st_mode) == 0o600


@pytest.mark.parametrize("address", [
    "http://localhost:8000/v1", "http://127.0.0.7:1/v1", "http://[::1]:8000/v1", "https://api.openai.com/v1",
    "sqlite:///a.db", "postgresql:///x", "postgresql:///x?host=/var/run", "https://mine.example.org/other",
])  # fmt: skip
def test_own_addresses_need_no_confirmation(address: str, home: Path) -> None:
    note_addresses(home, [address], ["https://api.openai.com/v1", "https://mine.example.org/v1"])
    check_address(address)


@pytest.mark.attack
@pytest.mark.parametrize("address", [
    "http://localhost.example.org/v1", "http://127.0.0.1.example.org/v1", "http://localhost@evil.example.org/v1",
    "http://api.openai.com/v1", "https://api.openai.com:444/v1", "postgresql://localhost,db.example.org/x",
    "http://0x7f.example.org", "postgresql://localhost#@db.example.org/x", "postgresql://db.example.org/x?a=@localhost",
    "postgresql://%2f.example.org/x", "postgresql://[broken/x", "postgresql:///x?hostaddr=10.0.0.1",
])  # fmt: skip
def test_addresses_that_look_like_own_ones_need_a_confirmation(address: str, home: Path) -> None:
    note_addresses(home, [address], ["https://api.openai.com/v1"])
    with pytest.raises(NotSent):
        check_address(address)


@pytest.mark.attack
@pytest.mark.parametrize(
    "address",
    [
        "postgresql://ada:lovelace@127.0.0.1/x",
        "postgresql:///x",
        "postgresql://localhost/x?application_name=hostaddr=::1",
    ],
)
def test_variable_that_redirects_postgresql_needs_a_confirmation(
    address: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libpq connects to `PGHOSTADDR`, whatever host the address names."""
    monkeypatch.setenv("PGHOSTADDR", "203.0.113.5")
    note_addresses(home, [address])
    with pytest.raises(NotSent, match=r"203\.0\.113\.5"):
        check_address(address)
    monkeypatch.setenv("PGHOSTADDR", "127.0.0.1")
    note_addresses(home, [address])
    check_address(address)


def test_projects_that_the_user_creates_need_no_confirmation(home: Path) -> None:
    assert CliRunner().invoke(app, ["init"]).exit_code == 0
    with Path("accord.yaml").open("a", encoding="utf-8") as file:
        file.write(FOREIGN)
    load_config()
    check_address(AWAY)
    assert CliRunner().invoke(app, ["trust", "--withdraw"]).exit_code == 0
    load_config()
    with pytest.raises(NotSent):
        check_address(AWAY)
    result = CliRunner().invoke(app, ["init"])
    assert "kept accord.yaml" in result.output and not is_trusted(home), "an existing project stays foreign"
    assert CliRunner().invoke(app, ["trust", str(home)]).exit_code == 0 and is_trusted(home)
    assert "no accord.yaml" in CliRunner().invoke(app, ["trust", "deep"]).output


def test_the_folder_of_a_run_is_trusted_as_the_project_that_it_comes_from(home: Path) -> None:
    write("draws: 20\nmetrics: [words]\n")
    given = [str(path) for path in sources()]
    for name, is_own in (("first", False), ("second", True)):
        result = CliRunner().invoke(app, ["run", *given, "--out", name, "--evaluator", "constant"])
        assert result.exit_code in (0, 5) and is_trusted(Path(name)) == is_own, result.output
        trust_folder(home)


@pytest.mark.attack
def test_nothing_is_sent_to_an_address_before_its_confirmation(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way out of a project: models, webhook, store. The hosts do not exist, so that a request would fail."""
    hosts = "https://judge.invalid/v1", "https://alarms.invalid/a", "postgresql://store.invalid/x"
    write(
        f"models: {{judge: {{mode: logprobs, model: m, base_url: '{hosts[0]}'}}}}\nmonitoring: {{webhook: '{hosts[1]}'}}\n"
    )
    assert CliRunner().invoke(app, ["import", *map(str, sources())]).exit_code == 0
    result = CliRunner().invoke(app, ["judge", "--limit", "1"])
    assert result.exit_code != 0 and "nothing was sent to https://judge.invalid" in result.output
    monkeypatch.setenv("OPENAI_BASE_URL", hosts[0])  # the user's own address
    monkeypatch.delenv("OPENAI_API_KEY")
    write("models: {judge: {mode: logprobs, model: m}}\n")
    write(KEYS, ".env")
    result = CliRunner().invoke(app, ["judge", "--limit", "1"])
    assert result.exit_code != 0 and "has OPENAI_API_KEY in its file .env" in result.output
    with pytest.raises(NotSent, match=r"nothing was sent to https://alarms\.invalid"):
        post_alarms(hosts[1], [{"message": "x"}], wait=0)
    write(f"store: '{hosts[2]}'\n")
    with pytest.raises(NotSent, match=r"nothing was sent to postgresql://store\.invalid"):
        Store(load_config().store)


@pytest.mark.attack
@pytest.mark.parametrize("content", ["[", "[]", '{"folders": 3}', '{"addresses": {"a": "b"}}', "pipe"])
def test_a_damaged_record_of_trust_is_an_error_that_names_it(content: str, home: Path) -> None:
    trusted_file().parent.mkdir(parents=True)
    if content == "pipe":
        if sys.platform == "win32":
            pytest.skip("Windows has no named pipes in folders")
        make_pipe(trusted_file())
    else:
        trusted_file().write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=r"trusted\.json"):
        note_addresses(home, [AWAY])
    assert CliRunner().invoke(app, ["init"]).exit_code == 0


@pytest.mark.posix
def test_a_written_file_keeps_its_mode_and_owner(home: Path) -> None:
    write("draws: 20\n")
    Path("accord.yaml").chmod(0o664)
    if os.geteuid() == 0:
        os.chown("accord.yaml", STRANGER, STRANGER)
    before = Path("accord.yaml").stat()
    write_atomically(Path("accord.yaml"), "draws: 30\n")
    after = Path("accord.yaml").stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    write_atomically(Path("new.yaml"), "x")
    assert stat.S_IMODE(Path("new.yaml").stat().st_mode) == 0o600
