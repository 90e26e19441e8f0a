"""Score parts: pieces, workers, kills and resumption, shards, and merging."""

import errno
import json
import os
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import polars as pl
import pytest
import scaled
from commands import invoke
from new_project import new_project
from processes import Forked, run
from special_files import make_link, make_pipe

from accord import Project
from accord.cli import (
    commands,  # noqa: F401 - registers the commands
)
from accord.edges import AccordError, BadInput, BadRow, BudgetReached, UnknownName
from accord.formats import (
    find_files,
    read_piece,
    split_files,
)
from accord.formats.files import file_chunks as pieces
from accord.formats.files.row_reader import line_rows
from accord.learning import (
    load_evaluator,
)
from accord.project import Config
from accord.runtime import (
    WorkerPool,
)
from accord.runtime import worker_pool as at_once
from accord.scoring import (
    BatchScorer,
    Execution,
    Perspective,
    Shard,
    merge_parts,
    score_parts,
)
from accord.scoring import (
    folder as engines,
)
from accord.scoring.parts import (
    finished,
    read_manifest,
)

ONE, TWO = Execution(workers=1), Execution(workers=2)


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    return BatchScorer(scaled.saved(tmp_path_factory.mktemp("evaluator")))


@pytest.fixture(autouse=True)
def processes(monkeypatch):
    """Worker processes of the local engine, forked from a process with all imports."""
    begun = []
    monkeypatch.setattr(
        at_once, "Popen", lambda arguments, **options: Forked(arguments[len(at_once.PYTHON) :], **options)
    )
    started = at_once.Worker
    monkeypatch.setattr(at_once, "Worker", lambda imports: begun.append(started(imports)) or begun[-1])
    return begun


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 40)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 20_000)


def table(out):
    return pl.concat([pl.read_parquet(path) for path in sorted(Path(out).glob("part-*.parquet"))])


def ids(out):
    return sorted(table(out)["conversation"])


def parts(out):
    return {path.name: (path.stat().st_mtime_ns, path.read_bytes()) for path in Path(out).glob("part-*.parquet")}


# --- pieces -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\n\n  \n"])
@pytest.mark.parametrize("last", ["", "\n"])
def test_lines_belong_to_the_piece_of_their_first_byte(tmp_path, newline, last):
    rows = [{"id": f"é{n}", "text": "x" * (n % 5)} for n in range(6)]
    path = tmp_path / "lines.jsonl"
    path.write_bytes((newline.join(json.dumps(row, ensure_ascii=False) for row in rows) + last).encode())
    size = path.stat().st_size
    for cut in range(size + 1):
        found = []
        for start, end in ((0, cut), (cut, size)):
            with path.open("rb") as stream:
                found += [row.fields for row in line_rows("lines", stream, start, end)]
        assert found == rows, cut


def test_too_long_line_is_one_bad_row(tmp_path, monkeypatch):
    from accord.formats.files import row_reader as rows

    monkeypatch.setattr(rows, "ROW_BYTES", 40)
    path = tmp_path / "lines.jsonl"
    path.write_text('{"a": 1}\n{"a": "' + "x" * 100 + '"}\n{"a": 3}\n', encoding="utf-8")
    for cut in (0, 5, 9, 10, 60, path.stat().st_size - 3):
        found = []
        for start, end in ((0, cut), (cut, path.stat().st_size)):
            with path.open("rb") as stream:
                found += list(line_rows("lines", stream, start, end))
        assert [isinstance(row, BadRow) for row in found] == [False, True, False], cut


def test_pieces_hold_each_conversation_once_and_are_stable(tmp_path, small_pieces):
    rows = scaled.drawn(300)
    scaled.parquet(tmp_path / "in/a.parquet", rows[:130])
    scaled.jsonl(tmp_path / "in/b/b.jsonl", rows[130:250])
    (tmp_path / "in/c.json").write_text(json.dumps(rows[250:]), encoding="utf-8")
    (tmp_path / "in/notes.md").write_text("not read", encoding="utf-8")
    (tmp_path / "in/.hidden.jsonl").write_text("{}", encoding="utf-8")
    made = split_files(find_files(str(tmp_path / "in")))
    found = [row.id for piece in made for row in read_piece(piece)]
    assert found == [row["id"] for row in rows[:130]] + [row["id"] for row in rows[130:250]] + [
        r["id"] for r in rows[250:]
    ]
    assert {piece.kind for piece in made} == {"rows", "lines", "file"} and len(made) > 6
    assert split_files(find_files(str(tmp_path / "in/**/*.*"))[:0] + find_files(str(tmp_path / "in"))) == made
    again = [type(piece).from_json(json.loads(json.dumps(piece.to_json()))) for piece in made]
    assert again == made and [piece.key for piece in again] == [piece.key for piece in made]


def test_rows_of_turns_are_grouped_across_files_and_passes(tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PASS_BYTES", 3000)
    (tmp_path / "in").mkdir()
    every = [{"conversation": f"c{n}", "turn": turn, "role": "user" if turn % 2 == 0 else "assistant", "content": f"{n} {turn}"}
             for turn in range(6) for n in range(50)]  # fmt: skip
    for number in range(3):  # each conversation's turns lie in all three files
        pl.DataFrame(every[number * 100 : number * 100 + 100]).write_csv(tmp_path / f"in/{number}.csv")
    made = split_files(find_files(str(tmp_path / "in")))
    found = [row for piece in made for row in read_piece(piece)]
    assert len(made) > 1 and {piece.kind for piece in made} == {"gathered"}
    assert sorted(row.id for row in found) == sorted(f"c{n}" for n in range(50))
    assert all([turn.content for turn in row.turns] == [f"{row.id[1:]} {turn}" for turn in range(6)] for row in found)


def test_conversations_without_ids_have_distinct_names(tmp_path):
    rows = [{"messages": row["messages"]} for row in scaled.drawn(3)]
    for folder in ("a", "b"):
        scaled.jsonl(tmp_path / folder / "chats.jsonl", rows)
    [one] = split_files(find_files(str(tmp_path / "a/chats.jsonl")))
    assert [row.id for row in read_piece(one)] == ["chats-1", "chats-2", "chats-3"]
    both = [row.id for piece in split_files(find_files(str(tmp_path / "*/chats.jsonl"))) for row in read_piece(piece)]
    assert both == [f"{folder}/chats-{line}" for folder in "ab" for line in (1, 2, 3)]
    alone = [row.id for piece in split_files(find_files(str(tmp_path / "a*/chats.jsonl"))) for row in read_piece(piece)]
    assert alone == both[:3], "a new file does not rename existing parts"
    named = [*find_files(str(tmp_path / "a/chats.jsonl")), *find_files(str(tmp_path / "b/chats.jsonl"))]
    assert len({row.id for piece in split_files(named) for row in read_piece(piece)}) == 6


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("no.jsonl", None, "no file"),
        ("*.jsonl", None, "no file of conversations"),
        ("bad.parquet", b"PAR1 no", "not a Parquet file"),
        ("labels.csv", b"conversation,annotator,question,value\na,b,q,1\n", "labels"),
        ("odd.jsonl", b'{"a": 1}\n', "cannot tell the format"),
        ("blank.jsonl", b"\n\n", "holds no row"),
    ],
)
def test_unreadable_input_stops_before_scoring(tmp_path, scorer, name, content, why):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(BadInput, match=why):
        score_parts(scorer, tmp_path / name, tmp_path / "out", ONE)
    assert not (tmp_path / "out").exists()


# --- parts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ending", "level", "execution"),
    [
        (".jsonl", "conversation", TWO),
        (".jsonl", "turn", ONE),
        (".csv", "conversation", ONE),
        (".csv", "turn", TWO),
        (".parquet", "conversation", ONE),
        (".parquet", "turn", ONE),
    ],
)
def test_merged_parts_equal_the_file_of_one_process(tmp_path, small_pieces, ending, level, execution):
    folder = scaled.saved(tmp_path / "e", level)
    chats = scaled.jsonl(
        tmp_path / "chats.jsonl",
        [*scaled.drawn(150, 4), {"id": "=cmd()", "messages": [{"role": "user", "content": "?"}]}],
    )
    with Project(Config(store=f"sqlite:///{tmp_path}/s.db")) as project:
        project.score(chats, tmp_path / f"one{ending}", load_evaluator(folder))
        done = project.score_parts(chats, tmp_path / "parts", folder, execution=execution)
        assert project.store.runs()[-1]["results"]["made"] == done.made > 3
    merge_parts(tmp_path / "parts", tmp_path / f"merged{ending}")
    if ending == ".parquet":
        merged = pl.read_parquet(tmp_path / "merged.parquet")
        assert merged.equals(pl.read_parquet(tmp_path / "one.parquet"))
    else:
        assert (tmp_path / f"merged{ending}").read_bytes() == (tmp_path / f"one{ending}").read_bytes()


def test_finished_part_stays_and_bytes_are_reproducible(tmp_path, scorer, small_pieces):
    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(100))
    first = score_parts(scorer, chats, tmp_path / "out", ONE)
    before = parts(tmp_path / "out")
    second = score_parts(scorer, chats, tmp_path / "out", ONE)
    assert first.made > 2 and (second.made, second.there) == (0, first.made) and parts(tmp_path / "out") == before
    score_parts(scorer, chats, tmp_path / "other", ONE)
    assert {name: content for name, (_, content) in parts(tmp_path / "other").items()} == {
        name: content for name, (_, content) in before.items()
    }
    manifest = read_manifest(str(tmp_path / "out"))
    assert manifest["rows"] == manifest["scored"] == 100 and manifest["unscored"] == {} and manifest["left"] == 0
    assert len(manifest["parts"]) == first.made and manifest["signature"] == scorer.signature and "spent" in manifest


@pytest.mark.attack
def test_merged_file_among_the_parts_is_refused(tmp_path, scorer, small_pieces):
    """A part may have been paid for; no option replaces it by the merged rows."""
    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(100))
    score_parts(scorer, chats, tmp_path / "out", ONE)
    before = parts(tmp_path / "out")
    for name in (next(iter(before)), "merged.jsonl", "deep/merged.csv"):
        with pytest.raises(BadInput, match="in the folder of the parts"):
            merge_parts(tmp_path / "out", tmp_path / "out" / name)
    assert parts(tmp_path / "out") == before


def test_only_lost_parts_and_manifests_are_made_again(tmp_path, scorer, small_pieces):
    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(100))
    score_parts(scorer, chats, tmp_path / "out", ONE)
    manifest = read_manifest(str(tmp_path / "out"))
    lost = next(iter(parts(tmp_path / "out")))
    (tmp_path / "out" / lost).unlink()
    with pytest.raises(BadInput, match="is gone"):
        merge_parts(tmp_path / "out", tmp_path / "m.parquet")
    assert score_parts(scorer, chats, tmp_path / "out", ONE).made == 1
    (tmp_path / "out/manifest.json").unlink()
    assert score_parts(scorer, chats, tmp_path / "out", ONE).made == 0
    assert read_manifest(str(tmp_path / "out")) == manifest


def test_new_and_changed_files_are_scored(tmp_path, scorer):
    rows = scaled.drawn(30)
    scaled.jsonl(tmp_path / "in/a.jsonl", rows[:10])
    scaled.jsonl(tmp_path / "in/b.jsonl", rows[10:20])
    score_parts(scorer, tmp_path / "in", tmp_path / "out", ONE)
    scaled.jsonl(tmp_path / "in/c.jsonl", rows[20:25])
    assert score_parts(scorer, tmp_path / "in", tmp_path / "out", ONE).made == 1
    scaled.jsonl(tmp_path / "in/a.jsonl", rows[:5] + rows[25:])
    done = score_parts(scorer, tmp_path / "in", tmp_path / "out", ONE)
    assert done.made == 1 and ids(tmp_path / "out") == sorted(row["id"] for row in rows[:5] + rows[10:])
    alone = score_parts(scorer, scaled.jsonl(tmp_path / "d.jsonl", scaled.drawn(40)[30:]), tmp_path / "out", ONE)
    assert alone.counts.rows == 35 and len(ids(tmp_path / "out")) == 35, "a folder collects the scores written to it"


def test_folder_rejects_scores_of_other_options(tmp_path, scorer):
    chats = scaled.jsonl(tmp_path / "a.jsonl", scaled.drawn(5))
    score_parts(scorer, chats, tmp_path / "out", ONE)
    other = BatchScorer(scaled.saved(tmp_path / "mixed", head="mixed"), Perspective.named("ann", (), None))
    with pytest.raises(BadInput, match="of another evaluator"):
        score_parts(other, chats, tmp_path / "out", ONE)
    (tmp_path / "out/manifest.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadInput, match="damaged"):
        score_parts(scorer, chats, tmp_path / "out", ONE)


def test_bad_rows_and_files_do_not_affect_others(tmp_path, scorer, small_pieces, monkeypatch):
    rows = scaled.drawn(60)
    scaled.jsonl(tmp_path / "in/a.jsonl", [*rows[:20], {"id": "odd"}, {"id": "odd-too", "messages": 3}])
    with (tmp_path / "in/a.jsonl").open("a") as stream:
        stream.write("no json\n")
    good = scaled.parquet(tmp_path / "in/b.parquet", rows[20:])
    damaged = bytearray(good.read_bytes())
    damaged[4:300] = b"\0" * 296
    (tmp_path / "in/c.parquet").write_bytes(damaged)
    with pytest.raises(BadInput, match="Parquet"):
        score_parts(scorer, tmp_path / "in", tmp_path / "out", ONE)
    # Damaged after it was planned: one part fails, all others are there, and the next run tries it again.
    (tmp_path / "in/c.parquet").write_bytes(good.read_bytes())
    planned = split_files(find_files(str(tmp_path / "in")))
    (tmp_path / "in/c.parquet").write_bytes(damaged)
    monkeypatch.setattr("accord.scoring.folder.split_files", lambda *_: planned)
    done = score_parts(scorer, tmp_path / "in", tmp_path / "out", ONE)
    assert done.left == len(done.failed) == 1 and "c.parquet" in next(iter(done.failed))
    assert done.counts.bad_rows == 3 and done.counts.scored == 60
    bad = table(tmp_path / "out").filter(pl.col("status") == "bad-row")
    assert len(bad) == 3 and bad["unscored"].is_not_null().all()
    with pytest.raises(BadInput, match="1 part missing of"):
        merge_parts(tmp_path / "out", tmp_path / "m.jsonl")


def test_merge_rejects_repeated_conversation(tmp_path, scorer):
    rows = scaled.drawn(5)
    scaled.jsonl(tmp_path / "in/a.jsonl", rows)
    scaled.jsonl(tmp_path / "in/b.jsonl", rows[:1])
    score_parts(scorer, tmp_path / "in", tmp_path / "out", ONE)
    with pytest.raises(BadInput, match="'c0'"):
        merge_parts(tmp_path / "out", tmp_path / "m.jsonl")
    with pytest.raises(BadInput, match="ending"):
        merge_parts(tmp_path / "out", tmp_path / "m.txt")
    with pytest.raises(BadInput, match="holds no scores in parts"):
        merge_parts(tmp_path / "in", tmp_path / "m.jsonl")


@pytest.mark.attack
@pytest.mark.parametrize("times", [2, 51])
def test_repeated_id_in_a_file_is_refused_as_for_a_single_file(project, times):
    [row] = scaled.drawn(1)
    replies = [[*row["messages"][:-1], {"role": "assistant", "content": f"yes {number}"}] for number in range(times)]
    scaled.jsonl(project / "same/a.jsonl", [{**row, "messages": messages} for messages in replies])
    for arguments in (["same", "--out", "parts/", "--workers", "1"], ["same/a.jsonl", "--out", "scores.jsonl"]):
        done = ran("score", *arguments)
        assert done.exit_code == 1 and "two conversations have the id 'c0'; give each its own" in done.output


# --- shards -----------------------------------------------------------------------------------------------------------


def test_shards_together_cover_all_pieces(tmp_path, scorer, small_pieces):
    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(1200))
    for number in (3, 1):
        score_parts(scorer, chats, tmp_path / "out", Execution(workers=1, shard=Shard(number, 3)))
    with pytest.raises(BadInput, match="parts missing"):
        merge_parts(tmp_path / "out", tmp_path / "m.parquet")
    done = score_parts(scorer, chats, tmp_path / "out", Execution(workers=1, shard=Shard(2, 3)))
    assert done.left == 0 and 0 < done.made < done.parts and done.counts.rows == 1200
    assert ids(tmp_path / "out") == sorted(row["id"] for row in scaled.drawn(1200))


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3", "1/3/5", "\u0661/\u0663", "1/\u00b2", "1/" + "9" * 5000]
)
@pytest.mark.attack
def test_invalid_shard_is_rejected(text):
    with pytest.raises(BadInput, match="from 1/N to N/N"):
        Shard.parse(text)


def test_last_manifest_lists_parts_of_all_processes(tmp_path, scorer, small_pieces, monkeypatch):
    """Another process writes a part and a manifest at the same time."""
    from accord.scoring import parts as made

    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(800))
    write, met = made.write_manifest, []

    def meanwhile(out, manifest):
        if manifest["parts"] and not met:
            met.append(True)
            score_parts(scorer, chats, tmp_path / "out", Execution(workers=1, shard=Shard(2, 2)))
        write(out, manifest)

    monkeypatch.setattr(made, "write_manifest", meanwhile)
    score_parts(scorer, chats, tmp_path / "out", Execution(workers=1, shard=Shard(1, 2)))
    manifest = read_manifest(str(tmp_path / "out"))
    assert (
        met and manifest["left"] == 0 and {part["key"] for part in manifest["parts"]} == finished(str(tmp_path / "out"))
    )


# --- processes --------------------------------------------------------------------------------------------------------


def test_invalid_workers_and_engines_are_rejected(tmp_path, scorer):
    chats = scaled.jsonl(tmp_path / "a.jsonl", scaled.drawn(2))
    with pytest.raises(BadInput, match="--workers"):
        score_parts(scorer, chats, tmp_path / "out", Execution(workers=0))
    with pytest.raises(UnknownName, match="engine"):
        score_parts(scorer, chats, tmp_path / "out", Execution("spark"))
    (tmp_path / "taken").write_text("", encoding="utf-8")
    with pytest.raises(BadInput, match="is a file"):
        score_parts(scorer, chats, tmp_path / "taken", ONE)


@pytest.mark.posix
def test_killed_worker_loses_no_rows(tmp_path, scorer, small_pieces, processes):
    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(1200))
    killed = []

    def kill_one(rows, expected):
        if not killed:
            killed.append(processes[0].pid)
            os.kill(processes[0].pid, signal.SIGKILL)

    done = score_parts(scorer, chats, tmp_path / "out", TWO, kill_one)
    assert len(processes) == 3 and not done.failed and done.left == 0 and done.counts.scored == 1200
    assert ids(tmp_path / "out") == sorted(row["id"] for row in scaled.drawn(1200))


@pytest.mark.posix
def test_piece_that_kills_every_worker_fails(tmp_path, monkeypatch):
    chats = scaled.jsonl(tmp_path / "a.jsonl", scaled.drawn(4))
    files = [chats, *(scaled.jsonl(tmp_path / f"{name}.jsonl", scaled.drawn(4)) for name in "bcdef")]
    planned = [piece for file in files for piece in split_files(find_files(str(file)))]
    deadly, own, killed = planned[0].key, os.getpid(), tmp_path / "killed"

    def scores(job, piece):
        assert os.getpid() != own
        if piece.key == deadly:
            killed.open("a").write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return engines.ScorePart.of(piece)

    monkeypatch.setattr(engines, "score_piece", scores)
    found = {part.key: part.failed for part in engines.local(None, planned, 2)}
    assert found.keys() == {piece.key for piece in planned} and killed.read_text(encoding="utf-8") == "xxx"
    assert "killed 3 times" in found.pop(deadly) and not any(found.values())


def test_refused_processes_are_reported(tmp_path, monkeypatch):
    files = [scaled.jsonl(tmp_path / f"{name}.jsonl", scaled.drawn(1)) for name in "ab"]
    planned = [piece for file in files for piece in split_files(find_files(str(file)))]

    def none(*_, **__):
        raise OSError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(at_once, "Popen", none)
    with pytest.raises(AccordError, match="no further worker process can start: .* lower --workers"):
        list(engines.local(None, planned, 2))
    with WorkerPool(4) as alone:
        assert alone.processes == 1 and alone(str, [1, 2]) == ["1", "2"]


@pytest.mark.posix
def test_worker_error_stops_all_workers(tmp_path, monkeypatch, processes):
    chats = scaled.jsonl(tmp_path / "a.jsonl", scaled.drawn(4))
    planned = [
        *split_files(find_files(str(chats))),
        *split_files(find_files(str(scaled.jsonl(tmp_path / "b.jsonl", scaled.drawn(4))))),
    ]

    def out_of_budget(job, piece):
        if piece.key == planned[1].key:
            raise BudgetReached("that was all")
        time.sleep(600)

    monkeypatch.setattr(engines, "score_piece", out_of_budget)
    with pytest.raises(BudgetReached, match="that was all"):
        list(engines.local(None, planned, 2))
    assert len(processes) == 2
    for process in processes:
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


RUN = """
import sys
from accord.formats.files import file_chunks
file_chunks.PIECE_ROWS = 40
from accord.cli import app, commands
app(sys.argv[1:])
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_killed_run_resumes(tmp_path, workers, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_project()
    scaled.saved(tmp_path / "e")
    chats = scaled.parquet(tmp_path / "a.parquet", scaled.drawn(2000))
    arguments = [
        "score",
        str(chats),
        "--out",
        str(tmp_path / "out"),
        "--evaluator",
        str(tmp_path / "e"),
        "--workers",
        workers,
    ]
    command = ["-c", RUN, *arguments, "--json"]
    driver = Forked(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not parts(tmp_path / "out") and time.monotonic() < deadline and driver.poll() is None:
        time.sleep(0.01)
    driver.kill()
    driver.wait()
    before = parts(tmp_path / "out")
    assert before
    done = run(command, cwd=tmp_path, text=True)
    found = json.loads(done.stdout)
    assert done.returncode == 0, done.stderr
    assert found["there"] >= len(before) and found["left"] == 0 and found["counts"]["scored"] == 2000
    assert ids(tmp_path / "out") == sorted(row["id"] for row in scaled.drawn(2000)), "nothing lost, nothing doubled"
    after = parts(tmp_path / "out")
    assert all(after[name] == made for name, made in before.items()), "nothing scored again"
    assert {part["key"] for part in read_manifest(str(tmp_path / "out"))["parts"]} == finished(str(tmp_path / "out"))


# --- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_project()
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    scaled.saved(tmp_path / "evaluators/default")
    rows = scaled.drawn(20)
    scaled.jsonl(tmp_path / "in/a.jsonl", rows[:10])
    scaled.jsonl(tmp_path / "in/b.jsonl", rows[10:])
    return tmp_path


ran = partial(invoke, code=None)


def test_command_scores_folders_globs_and_files_and_merges(project):
    for number, sources in enumerate((["in"], ["in/*.jsonl"], ["in/a.jsonl", "in/b.jsonl"])):
        done = ran("score", *sources, "--out", f"out{number}/", "--workers", "1")
        assert done.exit_code == 0 and "20 conversations scored" in done.output and "2 parts made" in done.output
    merged = ran("export", "scores.jsonl", "--scores", "out0")
    assert merged.exit_code == 0 and "20 rows" in merged.output
    found = [json.loads(line) for line in (project / "scores.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["conversation"] for row in found] == [f"c{number}" for number in range(20)]
    assert isinstance(found[0]["distribution"], dict) and "status" not in found[0]


def about(part):
    return json.loads(pl.read_parquet_metadata(part)["accord"])


def rewritten(change, **more):
    def spoil(part):
        said = json.dumps({**about(part), **more})
        change(pl.read_parquet(part)).write_parquet(part, metadata={"accord": said})

    return spoil


def instead(make):
    def spoil(part):
        part.unlink()
        make(part)

    return spoil


def overwritten(part):
    content = bytearray(part.read_bytes())
    content[4 : len(content) // 4] = b"\xff" * (len(content) // 4 - 4)
    part.write_bytes(bytes(content))


SPOILED = {
    "fewer rows": rewritten(lambda rows: rows.head(3)),
    "fewer rows and metadata that agree": rewritten(lambda rows: rows.head(3), rows=3, scored=3),
    "no scores": rewritten(lambda rows: rows.with_columns(pl.lit(None, pl.Float64).alias("value"))),
    "a column less": rewritten(lambda rows: rows.drop("low")),
    "another type": rewritten(lambda rows: rows.with_columns(pl.col("value").cast(pl.String))),
    "another key": rewritten(lambda rows: rows, key="0" * 16),
    "counts that are none": rewritten(lambda rows: rows, rows=-1),
    "no metadata": lambda part: pl.read_parquet(part).write_parquet(part),
    "metadata of NaN": rewritten(lambda rows: rows, total=float("nan")),
    "deep metadata": lambda part: pl.read_parquet(part).write_parquet(part, metadata={"accord": "[" * 100_000}),
    "cells that are no JSON": rewritten(lambda rows: rows.with_columns(pl.lit("{{").alias("distribution"))),
    "cut": lambda part: part.write_bytes(part.read_bytes()[:-30]),
    "cut to half": lambda part: part.write_bytes(part.read_bytes()[: part.stat().st_size // 2]),
    "empty": lambda part: part.write_bytes(b""),
    "pages overwritten": overwritten,
    "a pipe": instead(make_pipe),
    "a folder": instead(Path.mkdir),
    "a device": instead(lambda part: make_link(part, "/dev/zero")),
}


def one_cell(name, change, place=0):
    """A change of one cell of a part; its metadata stay."""

    def edited(rows):
        cells = rows[name].to_list()
        cells[place] = change(cells[place])
        return rows.with_columns(pl.Series(name, cells, rows[name].dtype, strict=False))

    return edited


def shares(change):
    return lambda cell: json.dumps(change(json.loads(cell)))


def moved(rows):
    """Two forged values with the same sum."""
    return one_cell("value", lambda value: value - 0.01, 1)(one_cell("value", lambda value: value + 0.01)(rows))


def other_answers(**answer):
    found = {"value": 3.0, "low": 1.0, "high": 5.0, "distribution": {"1": 0.5, "5": 0.5}, **answer}
    return one_cell("notes", lambda _: json.dumps({"other_questions": {"tone": found}}))


FORGED = {
    "NaN as value": (one_cell("value", lambda _: float("nan")), "row 1"),
    "infinite value": (one_cell("value", lambda _: float("inf"), 2), "row 3"),
    "NaN as interval": (one_cell("low", lambda _: float("nan")), "row 1"),
    "value beyond the scale": (one_cell("value", lambda _: 1e6), "not on the scale"),
    "other value": (one_cell("value", lambda value: value + 0.1), "row 1"),
    "two other values": (moved, "row 1"),
    "reversed interval": (lambda rows: rows.with_columns(low=pl.col("high") + 0.1), "row 1"),
    "probabilities that do not sum to 1": (
        one_cell("distribution", shares(lambda given: {**given, next(iter(given)): 0.9}), 1), "row 2",
    ),
    "negative probability": (
        one_cell("distribution", shares(lambda given: dict(zip(given, [-0.5, 1.5, *[0] * (len(given) - 2)], strict=True))), 1),
        "row 2",
    ),
    "other options": (
        one_cell("distribution", shares(lambda given: {str(float(key) + 1): part for key, part in given.items()}), 4), "row 5",
    ),
    "falling options": (one_cell("distribution", shares(lambda given: dict(reversed(given.items())))), "row 1"),
    "empty distribution": (one_cell("distribution", lambda _: "{}"), "row 1"),
    "other variance": (one_cell("variance", lambda value: value + 1), "its variance"),
    "other entropy": (one_cell("entropy", lambda value: 0.0), "its entropy"),
    "unknown status": (one_cell("status", lambda _: "fine"), "unknown status"),
    "negative turn": (one_cell("turn", lambda _: -1), "negative"),
    "reason beside a value": (one_cell("unscored", lambda _: "no reply"), "reason"),
    "no annotator": (one_cell("annotator", lambda _: None), "names no"),
    "training rows": (lambda rows: rows.with_columns(in_training=~pl.col("in_training")), "metadata"),
    "NaN in notes": (one_cell("notes", lambda _: '{"other_questions": {"tone": {"value": NaN}}}'), "row 1"),
    "other question beyond its scale": (other_answers(value=900.0), "question 'tone'"),
    "other question with other shares": (other_answers(distribution={"1": 0.9, "5": 0.9}), "question 'tone'"),
}  # fmt: skip


@pytest.mark.attack
def test_forged_rows_are_named_and_not_merged(project):
    assert ran("score", "in", "--out", "out/", "--workers", "1").exit_code == 0
    part = min(project.glob("out/part-*.parquet"))
    sound, said = pl.read_parquet(part), json.dumps(about(part))
    for name, (change, says) in FORGED.items():
        change(sound).write_parquet(part, metadata={"accord": said})
        for target in ("merged.parquet", "merged.jsonl"):
            done = ran("export", target, "--scores", "out")
            assert done.exit_code == 1 and part.name in done.output and says in done.output, (name, done.output)
    other_answers()(sound).write_parquet(part, metadata={"accord": said})
    assert ran("export", "merged.parquet", "--scores", "out").exit_code == 0


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
@pytest.mark.attack
def test_damaged_part_is_named_and_not_merged(project, spoil):
    assert ran("score", "in", "--out", "out/", "--workers", "1").exit_code == 0
    part = min(project.glob("out/part-*.parquet"))
    spoil(part)
    (project / "merged.jsonl").write_text("kept", encoding="utf-8")
    for arguments in (["export", "merged.jsonl", "--scores", "out", "--force"], ["import", "out"]):
        done = ran(*arguments)
        if arguments[0] == "export" or done.exit_code:
            assert done.exit_code == 1 and part.name in done.output and len(done.output.strip().splitlines()) == 1
    assert (project / "merged.jsonl").read_text(encoding="utf-8") == "kept"
    again = ran("score", "in", "--out", "out/", "--workers", "1")
    assert again.exit_code == 0 or (part.name in again.output and len(again.output.strip().splitlines()) == 1)
    part.rmdir() if part.is_dir() else part.unlink()
    assert ran("score", "in", "--out", "out/", "--workers", "1").exit_code == 0
    assert "20 rows" in ran("export", "merged.jsonl", "--scores", "out", "--force").output


@pytest.mark.parametrize("change", [
    lambda found: [found], lambda found: {}, lambda found: {**found, "parts": 7}, lambda found: {**found, "parts": [7]},
    lambda found: {**found, "parts": [{}]}, lambda found: {**found, "parts": found["parts"] * 2},
    lambda found: {**found, "parts": [{**found["parts"][0], "key": "../../accord.db"}]},
    lambda found: {**found, "parts": [{**found["parts"][0], "rows": "10"}]},
    lambda found: {**found, "parts": [{**found["parts"][0], "total": 1e999}]},
    lambda found: {**found, "parts": [{**found["parts"][0], "urls": 3}]},
    lambda found: {**found, "parts": [{**found["parts"][0], "unscored": {"a": -1}}]},
    lambda found: {**found, "made_from": 7}, lambda found: {k: v for k, v in found.items() if k != "made_from"},
    lambda found: {**found, "question": {"a": 1}}, lambda found: {**found, "left": "0"}, lambda found: {**found, "format": []},
])  # fmt: skip
@pytest.mark.attack
def test_odd_manifest_is_refused_in_one_line(project, change):
    assert ran("score", "in", "--out", "out/", "--workers", "1").exit_code == 0
    path = project / "out/manifest.json"
    path.write_text(json.dumps(change(json.loads(path.read_text(encoding="utf-8")))), encoding="utf-8")
    for arguments in (
        ["export", "m.jsonl", "--scores", "out"], ["import", "out"],
        ["score", "in", "--out", "out/", "--workers", "1"],
    ):  # fmt: skip
        done = ran(*arguments)
        assert done.exit_code == 1 and "manifest.json" in done.output and len(done.output.strip().splitlines()) == 1
    assert (project / "accord.db").exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[" * 100_000, b"NaN", b"7", b"null", b"1" * 5000])
@pytest.mark.attack
def test_manifest_that_is_no_json_object_is_refused_in_one_line(tmp_path, content):
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(BadInput, match="manifest.json is damaged") as caught:
        merge_parts(tmp_path, tmp_path / "m.jsonl")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["in/a.jsonl", "--out", "s.jsonl", "--workers", "2"], 1, "--out scores/"),
        (["in/a.jsonl", "in/b.jsonl", "--out", "s.jsonl"], 1, "accord export FILE --scores"),
        (["in/*.jsonl", "--out", "s.parquet"], 1, "accord export FILE --scores"),
        (["in", "--out", "out", "--shard", "3/2"], 1, "--shard"),
        (["in", "--out", "out", "--engine", "dask"], 1, "engine"),
        (["in", "--out", "out", "--skip-bad-rows"], 1, "--skip-bad-rows"),
        (["in", "--out", "out", "--ask", "3"], 1, "--ask"),
        (["in/a.jsonl", "--out", "s.txt"], 1, "suffix"),
        (["nowhere://bucket/a.jsonl", "--out", "out"], 1, "nowhere"),
    ],
)
def test_invalid_options_give_one_line(project, arguments, code, why):
    done = ran("score", *arguments)
    assert done.exit_code == code and why in done.output and "Traceback" not in done.output
    assert len(done.output.strip().splitlines()) == 1


def test_bad_rows_end_with_the_partial_exit_code(project):
    (project / "in/c.jsonl").write_text(
        '{"id": "x"}\n{"id": "y", "messages": [{"role": "user", "content": "hi"}]}\n', encoding="utf-8"
    )
    done = ran("score", "in", "--out", "out", "--format", "openai-messages", "--workers", "1", "--json")
    assert done.exit_code == 5 and '"bad_rows": 1' in done.output
