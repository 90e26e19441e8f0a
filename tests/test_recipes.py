"""The recipes of docs/scale.md for other engines run if the package is installed."""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import polars as pl
import pytest
import scaled
from processes import Forked

from accord import score_frame
from accord.edges import BadInput
from accord.formats import arrow_schema
from accord.scoring import BatchScorer, merge_parts

PAGE = Path(__file__).parents[1] / "docs" / "scale.md"
RECIPES = re.findall(r"^```py\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.M | re.S)
SPARK = """
from pyspark.sql import SparkSession
spark = (SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
         .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate())
"""
RAY = """
import os
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
import ray
ray.init(address="local", include_dashboard=False, log_to_driver=False, num_cpus=2, _node_ip_address="127.0.0.1")
"""


@pytest.fixture
def place(tmp_path):
    scaled.saved(tmp_path / "evaluators/mixture")
    scaled.parquet(tmp_path / "chats.parquet", scaled.drawn(120, 4))
    return tmp_path


def recipe(name):
    [found] = [block for block in RECIPES if name in block]
    return found


def expected(place):
    return BatchScorer(place / "evaluators/mixture")(pl.read_parquet(place / "chats.parquet")).sort("conversation")


@pytest.mark.parametrize(
    ("package", "name", "before"),
    [
        ("ray", "import ray.data", RAY), ("pyspark", "spark.read", SPARK), ("daft", "import daft", ""),
        ("duckdb", "import duckdb", ""),
    ],
)  # fmt: skip
def test_what_is_printed_gives_the_scores_of_the_batch_scorer(place, package, name, before):
    if find_spec(package) is None or (package == "pyspark" and find_spec("pyarrow") is None):
        pytest.skip(f"{package} is not installed")
    environment = {"PYSPARK_PYTHON": sys.executable, "DO_NOT_TRACK": "1", "DAFT_ANALYTICS_ENABLED": "0"}
    done = subprocess.run(
        [sys.executable, "-c", before + recipe(name)], cwd=place, capture_output=True, text=True, timeout=300,
        env={**os.environ, **environment},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    scored = pl.read_parquet(place / "scored/*.parquet" if (place / "scored").is_dir() else place / "scored.parquet")
    assert scored.sort("conversation").equals(expected(place))


@pytest.mark.slow
def test_databricks_recipe_scores_a_table_and_gives_bad_rows_their_reason(place):
    if find_spec("pyspark") is None:
        pytest.skip("pyspark is not installed")
    block = recipe("/Volumes").replace("/Volumes/main/support/", "").replace("main.support.", "")
    rows = [
        *pl.read_parquet(place / "chats.parquet").to_dicts(),
        {"id": "bad", "messages": []},
        {"id": None, "messages": None},
    ]
    pl.DataFrame(rows).rename({"id": "chat_id", "messages": "turns"}).write_parquet(place / "chats.parquet")
    before = f"{SPARK}\nspark.read.parquet('chats.parquet').repartition(3).write.saveAsTable('chats')\n"
    after = "\nspark.table('scores').write.parquet('scored')"
    done = subprocess.run(
        [sys.executable, "-c", before + block + after], cwd=place, capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    scored = pl.read_parquet(place / "scored/*.parquet")
    bad = scored.filter(pl.col("status") == "bad-row")
    assert (
        scored.height == 122
        and bad.height == 2
        and bad["unscored"].null_count() == 0
        and bad["value"].null_count() == 2
    )
    scorer = BatchScorer(place / "evaluators/mixture", columns={"id": "chat_id", "messages": "turns"})
    assert scored.sort("conversation").equals(
        scorer(pl.DataFrame(rows).rename({"id": "chat_id", "messages": "turns"})).sort("conversation")
    )


@pytest.mark.parametrize("frame", [[{"id": "a"}], {"id": ["a"]}, None, "chats.parquet"])
def test_score_frame_refuses_what_is_no_table(place, frame):
    with pytest.raises(BadInput, match="takes a Spark DataFrame or a table"):
        score_frame(frame, place / "evaluators/mixture")


def test_spark_s_way_of_calling_gives_record_batches_of_the_published_columns(place, monkeypatch):
    """Its `mapInArrow` hands over an iterator of record batches and takes one; no Spark is needed to try that."""
    pa = pytest.importorskip("pyarrow")
    monkeypatch.chdir(place)
    batches = pa.table(pl.read_parquet("chats.parquet").to_arrow()).to_batches(max_chunksize=50)
    found = {}

    class Frame:
        def __getattr__(self, name):
            return self

        def parquet(self, _):
            return self

        def mapInArrow(self, score, columns):  # noqa: N802 - Spark's own name
            found.update(batches=list(score(iter(batches))), columns=columns)
            return self

    exec(compile(recipe("spark.read"), str(PAGE), "exec"), {"spark": Frame()})
    assert all(isinstance(each, pa.RecordBatch) and each.schema == arrow_schema() for each in found["batches"])
    names = [each.split() for each in found["columns"].split(", ")]
    kinds = {"long": "int64", "double": "double", "boolean": "bool", "string": "string"}
    assert [(name, kinds[kind]) for name, kind in names] == [(field.name, str(field.type)) for field in arrow_schema()]
    assert pl.concat(map(pl.from_arrow, found["batches"])).sort("conversation").equals(expected(place))


def test_any_scheduler_runs_the_same_command_per_share_at_the_same_time(place):
    (place / "accord.yaml").write_text("seed: 0\n", encoding="utf-8")
    run = "from accord.formats.files import file_chunks\nfile_chunks.PIECE_ROWS = 10\nfrom accord.cli import app, commands\napp()"
    own = ["--evaluator", "evaluators/mixture", "--workers", "1"]
    shares = [
        Forked(
            ["-c", run, "score", "chats.parquet", "--out", "scores/", "--shard", f"{n}/3", *own],
            cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for n in (1, 2, 3)
    ]  # fmt: skip
    said = [share.communicate(timeout=300)[0] for share in shares]
    assert all(share.returncode == 0 for share in shares), said
    merge_parts(place / "scores", place / "all.parquet")
    assert pl.read_parquet(place / "all.parquet").sort("conversation").equals(expected(place))
