"""Linux, macOS and Windows: functions missing on one of them, output in code pages, names of folders, replaced files."""

from __future__ import annotations

import ast
import errno
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import accord, refused, write

from accord.edges import BadInput, check_folder_names, output_paths, replace_file

ROOT = Path(__file__).parents[1]

# --- functions missing on a system ------------------------------------------------------------------------------------

NAMES = {
    "AF_UNIX", "MSG_DONTWAIT", "SIGALRM", "SIGHUP", "SIGKILL", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGXFSZ", "WNOHANG",
    "add_signal_handler", "chown", "fchmod", "fchown", "fork", "getegid", "geteuid", "getgid", "getloadavg", "getrlimit",
    "getrusage", "getuid", "hardlink_to", "killpg", "mkfifo", "mknod", "pthread_kill", "recv_fds", "sched_getaffinity",
    "send_fds", "send_signal", "setitimer", "setrlimit", "setsid", "st_gid", "st_uid", "statvfs", "symlink", "symlink_to",
    "sysconf", "tzset", "umask", "wait4",
}  # fmt: skip
MODULES = {"fcntl", "grp", "msvcrt", "pty", "pwd", "resource", "termios"}
ARGUMENTS = {"pass_fds", "preexec_fn", "shell", "start_new_session"}
PATHS = ("/proc/", "/dev/", "#!/")
IN_CODE = {
    "src/accord/edges/output_paths.py": ({"fchmod", "fchown", "st_gid", "st_uid"}, "a written file keeps owner and mode; not on Windows"),
    "src/accord/edges/trust.py": ({"geteuid", "grp", "pwd", "st_gid", "st_uid"}, "owners of project files; not checked on Windows"),
    "src/accord/embedded/huggingface.py": ({"/proc/", "getrlimit", "resource", "setrlimit"}, "limits memory while a model file is read; on Linux only"),
    "src/accord/hosts/agents/skill.py": ({"#!/"}, "text of the scripts of the skill"),
    "src/accord/runtime/worker_pool.py": ({"getrlimit", "resource", "sched_getaffinity", "setrlimit", "start_new_session"}, "with os.cpu_count, a process group and no limit of memory elsewhere"),
    "src/accord/store/imports.py": ({"os.kill"}, "asks if a process runs; elsewhere the claim runs out"),
    "src/accord/store/mart/mart.py": ({"os.kill"}, "asks if a process runs; elsewhere the age of the file decides"),
    "src/accord/store/mart/files.py": ({"fcntl", "msvcrt"}, "locks, one module for each system"),
    "src/accord/store/request_claims.py": ({"geteuid", "st_uid"}, "owners of spool files; not checked on Windows"),
}  # fmt: skip
IN_TEST_HELPERS = {
    "conftest.py": "", "processes.py": "forks on Linux only", "scaled.py": "tests with the marker linux",
    "test_gate_files.py": "its fixture skips", "serving.py": "SIGTERM, which ends a process at once on Windows", "special_files.py": "skips", "test_systems.py": "this table",
    "throwaway_postgres.py": "raises on Windows",
}  # fmt: skip

_WORDS = re.compile("|".join(map(re.escape, (*NAMES, *MODULES, *ARGUMENTS, *PATHS, "os.kill"))))


def uses(tree: ast.AST) -> Iterator[str]:
    """Yield the names, modules, arguments and paths in a tree that one of the systems lacks."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in NAMES:
            yield node.attr
        elif isinstance(node, ast.Attribute) and node.attr == "kill" and getattr(node.value, "id", "") == "os":
            yield "os.kill"
        elif isinstance(node, ast.keyword) and node.arg in ARGUMENTS:
            yield node.arg
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in MODULES)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from (each for each in PATHS if node.value.startswith(each))
        elif isinstance(node, ast.JoinedStr) and isinstance(first := node.values[0], ast.Constant):
            yield from (each for each in PATHS if str(first.value).startswith(each))


def parsed(path: Path) -> ast.Module:
    """Return the syntax tree of a file, or an empty tree if no word occurs in the text."""
    text = path.read_text(encoding="utf-8")
    return ast.parse(text if _WORDS.search(text) else "")


def test_code_uses_what_windows_or_macos_lack_only_for_listed_reasons() -> None:
    found = defaultdict(set)
    for folder in ("src", "packages/accord-papers/src"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if names := set(uses(parsed(path))):
                found[path.relative_to(ROOT).as_posix()] = names
    assert found == {path: names for path, (names, _) in IN_CODE.items()}, (
        "a new use works on all systems or says why it cannot, and stands in the table with the reason"
    )


def test_tests_that_need_linux_or_posix_are_marked() -> None:
    unmarked = []
    for path in sorted((*ROOT.glob("tests/*.py"), *ROOT.glob("packages/*/tests/*.py"))):
        if path.name in IN_TEST_HELPERS:
            continue
        body = parsed(path).body
        named = {target.id: node for node in body if isinstance(node, ast.Assign)
                 for target in node.targets if isinstance(target, ast.Name)}  # fmt: skip
        of_module = ast.unparse(named["pytestmark"]) if "pytestmark" in named else ""
        for node in (each for each in body if each not in [named[name] for name in named if name.startswith("needs_")]):
            marks = " ".join([of_module, *map(ast.unparse, getattr(node, "decorator_list", ()))])
            if (names := set(uses(node)) - {"/dev/"}) and not any(
                each in marks for each in ("mark.posix", "mark.linux", "needs_")
            ):
                unmarked.append(f"{path.name}:{node.lineno}: {', '.join(sorted(names))}")
    assert unmarked == [], "mark them posix or linux, or use `special_files`:\n" + "\n".join(unmarked)


def test_texts_that_are_read_in_the_encoding_of_the_system_are_ascii() -> None:
    stubs = [path for folder in ("src", "packages") for path in (ROOT / folder).rglob("*.pyi")]
    assert stubs and [path for path in stubs if not path.read_bytes().isascii()] == [], "lazy-loader names no encoding"


# --- output in other encodings ----------------------------------------------------------------------------------------


def test_output_in_a_code_page_loses_letters_and_does_not_fail(working_folder: Path) -> None:
    folder = working_folder / "Prüfung ρ für Ägypten, lang"
    folder.mkdir()
    row = {"id": "ρ", "prompt": "Σ?", "response": "ω ü"}
    (folder / "ρ.jsonl").write_text(f"{row}\n".replace("'", '"'), encoding="utf-8")
    environment = {**os.environ, "PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}

    def output(*command: str) -> bytes:
        command = (sys.executable, "-m", "accord", *command)
        return subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True).stdout

    output("init")
    output("import", "ρ.jsonl")
    assert b"written to ?.csv" in output("export", "ρ.csv")
    assert b"\\u03c1.jsonl" in output("import", "--list", "--json")


# --- names and renamed files ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "names", [["a/b"], ["a:b"], ["CON"], ["nul.txt"], ["end."], ["end "], [".."], [""], ["x" * 300], ["Tone", "tone"]]
)
def test_names_that_cannot_be_folders_on_every_system_are_refused(names: list[str]) -> None:
    with pytest.raises(BadInput, match="evaluators: .* (rename one|use letters)"):
        check_folder_names(names, "evaluators")


def test_evaluator_with_an_invalid_name_is_named(working_folder: Path) -> None:
    write("accord.yaml", "evaluators: {'tone?': {sources: [metrics], head: mixed}}")
    assert "'tone?' cannot be the name of a folder on every system" in refused("store", "check")


def test_file_with_a_name_that_the_system_refuses_is_named(
    working_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accord("init")

    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.EINVAL, "Invalid argument", str(target))  # Windows, for `a?.csv`

    monkeypatch.setattr(output_paths.os, "replace", refuse)
    assert "cannot use" in refused("export", "a.csv") and not Path("a.csv").exists()


@pytest.mark.parametrize(("refusals", "is_windows"), [(3, True), (1, False)])
def test_file_that_another_process_reads_is_replaced_on_windows(
    refusals: int, is_windows: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "new", tmp_path / "old"
    source.write_bytes(b"new")
    target.write_bytes(b"old")
    replace, left = os.replace, [PermissionError(errno.EACCES, "in use")] * refusals

    def in_use(*paths: Path) -> None:
        if left:
            raise left.pop()
        replace(*paths)

    monkeypatch.setattr(output_paths.os, "replace", in_use)
    monkeypatch.setattr(output_paths, "IS_WINDOWS", is_windows)
    if is_windows:
        replace_file(source, target)
        assert target.read_bytes() == b"new"
    else:
        with pytest.raises(PermissionError):
            replace_file(source, target)
