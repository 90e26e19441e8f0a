"""A source from outside the product, `examples/sixth_source.py`, has the abilities of the built-in ones."""

import importlib.util
import re
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import small_sample as sample

from accord import LiveScorer, Project, read
from accord.edges import BadInput
from accord.evidence import make_source, sources
from accord.models import run
from accord.project import config_from, json_schema
from accord.report import write_report
from accord.results import Charts, Findings, Point, Points, Section, Table, Text, document_text, number
from accord.statistics import grouped_folds
from accord.testing import ChatServer, check_source, completion
from accord.values import Document, Estimate, Labels, Sample, Score

EXAMPLE = Path(__file__).parent.parent / "examples" / "sixth_source.py"
SRC = Path(__file__).parent.parent / "src" / "accord"
FOLDS = 3


@pytest.fixture(scope="module")
def example():
    spec = importlib.util.spec_from_file_location("sixth_source", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sources.forget("politeness")


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")


def answer(request):
    """Words that look polite, one to five of them."""
    words = len(re.findall("please|thank|sorry|glad|happy|welcome", request["messages"][0]["content"].lower()))
    return completion("", {str(1 + words % 5): 0.75, "x": 0.25})


def config(folder, url, **more):
    scorer = {"model": "loopback", "mode": "logprobs", "base_url": url}
    mine = {"sources": ["politeness", "metrics"], "head": "mixed"}
    return config_from({
        "store": f"sqlite:///{folder}/accord.db", "models": {"scorer": scorer},
        "evaluators": {"mine": mine, "default": {"head": "mixed"}}, "evaluator": "mine", "folds": FOLDS, "draws": 20, **more,
    })  # fmt: skip


@pytest.fixture
def server():
    with ChatServer(answer) as running:
        yield running


@pytest.fixture
def project(example, server, tmp_path):
    with Project(config(tmp_path, server.url)) as opened:
        opened.import_(sample.sources())
        yield opened


def test_example_runs_and_is_short(example, capsys, monkeypatch):
    monkeypatch.setattr("accord.sample.sources", sample.sources)
    example.main()
    said = capsys.readouterr().out
    assert "'rmse'" in said and "'scored': 40" in said
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) <= 70


def test_product_does_not_know_the_example():
    assert not [
        path
        for path in SRC.rglob("*.py")
        if 'register("politeness")' in path.read_text(encoding="utf-8")
        or "Politeness" in path.read_text(encoding="utf-8")
    ]


def test_example_keeps_the_contract_of_a_source(example, project):
    train, _ = project.training(project.evaluator("mine"))
    make = partial(make_source, "politeness", {}, project.context)
    table = check_source(make, train, project.models)
    assert table.present.all() and len(np.unique(table.values)) > 2


def test_source_learns_again_without_each_fold(example, project, monkeypatch, tmp_path):
    """Every call of `learn` is noted: one per fold without the fold's groups, and the last with everything."""
    seen, plain = [], example.Politeness.learn

    def noting(self, train):
        learned = yield from plain(self, train)
        seen.append(({train.group_of(target) for target in train.targets}, tuple(learned.source.line)))
        return learned

    monkeypatch.setattr(example.Politeness, "learn", noting)
    fitted = project.fit("mine", tmp_path / "mine")
    train, _ = project.training(project.evaluator("mine"))
    everything = {train.group_of(target) for target in train.targets}
    folds = grouped_folds(sorted(everything), FOLDS, train.seed)
    assert [groups for groups, _ in seen[:-1]] == [set(split.train) for split in folds]
    assert seen[-1][0] == everything
    assert len({line for _, line in seen}) == FOLDS + 1, "each fold has a line of its own"
    [source] = [each for each in fitted.evaluator.sources if each.name == "politeness"]
    assert tuple(source.line) == seen[-1][1]


def turned(train, groups):
    """The same training with the ratings of some groups turned round."""
    low, high = min(train.question.scale.numbers), max(train.question.scale.numbers)

    def one(label):
        mine = label.question == train.question.id and train.group_of(label.target) in groups
        return replace(label, value=low + high - label.value) if mine and label.value is not None else label

    return replace(train, labels=Labels(map(one, train.labels), train.labels.groups))


def test_training_evidence_is_out_of_sample(example, project):
    """Turning round the ratings of one group moves the evidence of every other group, and not that group's own."""
    train, _ = project.training(project.evaluator("mine"))
    group = train.group_of(train.targets[0])
    before, after = (
        run(project.source("politeness").learn(one), project.models).evidence for one in (train, turned(train, {group}))
    )
    same = before.values[:, 0] == after.values[:, 0]
    assert same.tolist() == [train.group_of(target) == group for target in before.targets]


def test_head_uses_the_source(example, server, tmp_path):
    """If ratings follow its answers, the head relies on this column among ten."""
    with Project(config(tmp_path, server.url)) as project:
        project.import_(sample.sources()[:1])
        samples = list(project.all_samples())
        raw = run(project.source("politeness").measure(samples), project.models)
        rows = [f"{s.target.conversation},{who},{round(1 + 3 * (x - 1) / 4)}"
                for s, [x] in zip(samples, raw.values, strict=True) for who in ("ann", "bob")]  # fmt: skip
        (tmp_path / "labels.csv").write_text("\n".join(["conversation,annotator,Q0", *rows]) + "\n", encoding="utf-8")
        project.import_([tmp_path / "labels.csv"])
        found = project.fit("mine", tmp_path / "mine").comparison
        assert found["mine"].values["rmse"] < 0.6 * found["annotator-mean"].values["rmse"]


def test_source_scores_live_with_models(example, project, server, tmp_path):
    """A source that asks is rejected without models, and asked about each reply with them."""
    fitted = project.fit("mine", tmp_path / "mine").evaluator
    with pytest.raises(BadInput, match="its source 'politeness' asks the scorer about every reply"):
        LiveScorer(fitted)
    asked, scorer = len(server.requests), LiveScorer(fitted, models=project.models)
    conversation = sample_conversation()
    places = [place for place, turn in enumerate(conversation.turns) if turn.role == "assistant"]
    documents = [document.text for document in conversation.documents]
    live = [scorer.message("new", turn.role, turn.content, documents) for turn in conversation.turns]
    assert len(server.requests) == asked + len(places)
    again = replace(conversation, id="again", documents=tuple(map(Document, documents)), metadata={})
    for place in places:
        [batch] = run(fitted.predict([Sample(again, place)]), project.models)
        assert isinstance(live[place], Score) and live[place].value == batch.value
    assert len(server.requests) == asked + len(places), "the same words are not asked about twice"


def sample_conversation():
    """One of the sample's."""
    return next(iter(read(sample.sources()[0]))).conversation


@dataclass(frozen=True)
class LineFindings(Findings):
    """A line that was learned."""

    slope: float

    def section(self):
        figures = Table(["", "slope"], [["line", Estimate(self.slope, 0.0, 2.0)]])
        chart = Charts([Points("the line", "slope", [Point("line", Estimate(self.slope, 0.0, 2.0))])])
        return Section("Politeness & co", "What <politeness> is worth.", [Text("read it", "soft"), figures, chart])


def test_command_line_and_report_show_findings(example, project, monkeypatch, tmp_path):
    monkeypatch.setattr(example.Politeness, "findings", lambda self: LineFindings(self.line[0]))
    monkeypatch.setattr(LineFindings, "cautions", ["a line is not much"])
    fitted = project.fit("mine", tmp_path / "mine")
    slope = next(each for each in fitted.evaluator.sources if each.name == "politeness").line[0]
    shown = f"line  {number(slope, 2)} [0.00, 2.00]"
    text = document_text(fitted.document())
    assert "Politeness & co: What <politeness> is worth.\n\nread it" in text and shown in text
    assert fitted.to_json()["findings"] == {"politeness": {"slope": slope}} and "a line is not much" in fitted.cautions
    html = write_report(project, tmp_path / "report.html", fitted).read_text(encoding="utf-8")
    assert "<h2>Politeness &amp; co</h2>" in html and "What &lt;politeness&gt; is worth." in html
    assert html.count("a line is not much") == 1 and '<p class="soft">read it</p>' in html
    assert f"<td>{number(slope, 2)} [0.00, 2.00]</td>" in html and re.search(
        "<figcaption>the line</figcaption><(svg|table)", html
    )


def test_schema_has_the_settings(example):
    assert "politeness" in json_schema()["properties"]["sources"]["properties"]
