"""Object stores: listed, read in pieces and written to, on a server of that protocol on loopback."""

import json
import sys
from importlib.util import find_spec

import polars as pl
import pytest
import scaled
from new_project import new_project
from typer.testing import CliRunner

from accord.cli.app import app
from accord.edges import BadInput, MissingExtra
from accord.formats import delete_file, find_files, list_names, open_file, read_piece, split_files, write_file
from accord.formats.files import file_chunks as pieces
from accord.formats.files import object_storage as objects
from accord.scoring import (
    BatchScorer,
    Execution,
    merge_parts,
    score_parts,
)
from accord.scoring.parts import finished

LACKING = [name for name in ("s3fs", "moto") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)} (accord[s3], moto[server])")
ONE = Execution(workers=1)


@pytest.fixture(scope="module")
def server():
    from moto.server import ThreadedMotoServer

    found = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    found.start()
    yield "http://{}:{}".format(*found.get_host_and_port())
    found.stop()


@pytest.fixture
def bucket(server, monkeypatch, request):
    for name, value in {
        "AWS_ENDPOINT_URL": server, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    name = "b" + str(abs(hash(request.node.name)))
    s3fs.S3FileSystem().mkdir(name)
    yield f"s3://{name}"
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture(scope="module")
def scorer(tmp_path_factory):
    return BatchScorer(scaled.saved(tmp_path_factory.mktemp("evaluator")))


@pytest.fixture
def chats(bucket, tmp_path, monkeypatch):
    monkeypatch.setattr(pieces, "PIECE_ROWS", 40)
    monkeypatch.setattr(pieces, "PIECE_BYTES", 20_000)
    rows = scaled.drawn(200)
    write_file(f"{bucket}/chats/a.parquet", scaled.parquet(tmp_path / "a.parquet", rows[:100]))
    write_file(f"{bucket}/chats/2026/b.jsonl", scaled.jsonl(tmp_path / "b.jsonl", rows[100:180]).read_bytes())
    write_file(f"{bucket}/chats/2026/c.json", json.dumps(rows[180:]).encode())
    write_file(f"{bucket}/chats/notes.md", b"not read")
    return f"{bucket}/chats"


def test_objects_are_read_as_files_are(chats, tmp_path):
    made = split_files(find_files(chats))
    assert {piece.kind for piece in made} == {"rows", "lines", "file"} and len(made) > 4
    found = [row.id for piece in made for row in read_piece(piece)]
    assert sorted(found) == sorted(row["id"] for row in scaled.drawn(200))
    [one] = find_files(f"{chats}/*.parquet")
    assert one.url == f"{chats}/a.parquet" and one.size > 100 and one.version
    assert find_files(one.url) == [one]
    assert {file.url for file in find_files(f"{chats}/**/*.json*")} == {f"{chats}/2026/b.jsonl", f"{chats}/2026/c.json"}


def test_rows_that_are_turns_are_gathered_across_objects(bucket):
    turns = [{"conversation": f"c{n % 9}", "role": "user", "content": f"{n}"} for n in range(60)]
    for number in range(2):
        write_file(f"{bucket}/turns/{number}.csv", pl.DataFrame(turns[number::2]).write_csv().encode())
    found = [row for piece in split_files(find_files(f"{bucket}/turns")) for row in read_piece(piece)]
    assert sorted(row.id for row in found) == [f"c{n}" for n in range(9)]
    assert sum(len(row.turns) for row in found) == 60


def test_scores_go_into_a_bucket_and_out_of_it(chats, bucket, scorer, tmp_path):
    out = f"{bucket}/scores"
    done = score_parts(scorer, chats, out, Execution(workers=2))
    assert done.left == 0 and done.counts.scored == 200 and not done.failed
    keys = finished(out)
    assert len(keys) == done.parts and "manifest.json" in list_names(out)
    assert score_parts(scorer, chats, out, ONE).made == 0
    delete_file(f"{out}/part-{min(keys)}.parquet")
    assert score_parts(scorer, chats, out, ONE).made == 1 and finished(out) == keys
    merge_parts(out, tmp_path / "m.parquet")
    assert sorted(pl.read_parquet(tmp_path / "m.parquet")["conversation"]) == sorted(r["id"] for r in scaled.drawn(200))
    merge_parts(out, f"{bucket}/merged.parquet")
    with open_file(f"{bucket}/merged.parquet") as stream:
        assert stream.read() == (tmp_path / "m.parquet").read_bytes()


def test_the_command_takes_a_url(chats, bucket, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    new_project()
    monkeypatch.delenv("ACCORD_STORE", raising=False)
    scaled.saved(tmp_path / "evaluators/default")
    arguments = ["score", f"{chats}/*.parquet", "--out", f"{bucket}/s", "--workers", "1", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["counts"]["scored"] == 100


@pytest.mark.parametrize(
    ("url", "why"),
    [("s3://no-such-bucket/x.parquet", "no file of conversations|cannot find"), ("nowhere://x/y.jsonl", "nowhere"),
     ("gs://bucket/x.jsonl", "pip install gcsfs")],
)  # fmt: skip
def test_what_is_not_there_is_one_line(bucket, scorer, tmp_path, url, why):
    with pytest.raises(BadInput, match=why):
        score_parts(scorer, url, tmp_path / "out", ONE)


def test_a_store_that_refuses_or_is_away_is_one_line_and_what_was_done_stays(chats, bucket, scorer, monkeypatch):
    monkeypatch.setattr(
        objects, "write_file", _refused := lambda *_: (_ for _ in ()).throw(BadInput("cannot write: 403"))
    )
    monkeypatch.setattr("accord.scoring.parts.write_file", _refused)
    with pytest.raises(BadInput, match="403"):
        score_parts(scorer, chats, f"{bucket}/refused", ONE)
    monkeypatch.undo()


def test_a_store_that_cannot_be_reached_is_one_line(scorer, tmp_path, monkeypatch):
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    for name, value in {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ACCESS_KEY_ID": "t", "AWS_SECRET_ACCESS_KEY": "t",
                        "AWS_MAX_ATTEMPTS": "1", "AWS_DEFAULT_REGION": "us-east-1"}.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    with pytest.raises(BadInput, match="cannot find s3://bucket/chats"):
        score_parts(scorer, "s3://bucket/chats", tmp_path / "out", ONE)
    s3fs.S3FileSystem.clear_instance_cache()


def test_a_package_that_is_missing_is_named_with_its_line(scorer, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[s3\]'"):
        score_parts(scorer, "s3://bucket/chats", tmp_path / "out", ONE)
