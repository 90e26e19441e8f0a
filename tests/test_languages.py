"""Metrics of texts in other languages: words of any script, and language identification."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from accord import Conversation, Document, Label, Labels, Question, Scale, Turn
from accord.edges import UnknownName
from accord.evidence import (
    SourceContext,
    Training,
    make_source,
    turn_metrics,
)
from accord.evidence.bank.reply_features import ParsedText
from accord.evidence.bank.reply_metrics import BANK
from accord.evidence.bank.session import MetricSession
from accord.evidence.bank.words import tokens
from accord.evidence.metric_source import measure
from accord.formats import read
from accord.learning import Evaluator, EvaluatorSettings, load_evaluator, make_evaluator
from accord.live import LiveScorer
from accord.models import memory_models, run
from accord.statistics import STATISTICS, Paired
from accord.values import Rubric, Sample, Score

GERMAN = "Der Graureiher frisst Fische und Frösche, und er steht dabei am Ufer."
UNKNOWN = "Con cò ăn cá và ếch ở gần sông, nó là một loài chim chân dài sống ở đây."


def pairs() -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    lines = (Path(__file__).parent / "data" / "language_pairs.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        language, fact, reply = line.split("\t")
        found[language].append((fact, reply))
    return found


PAIRS = pairs()


def ciu(fact: str, reply: str) -> float:
    found = MetricSession({"ciu": turn_metrics.get("ciu")}, [fact]).reply(reply)["ciu"]
    assert found is not None
    return found


def chat(*said: str, documents: tuple[str, ...] = ()) -> Conversation:
    turns = tuple(Turn("user" if place % 2 == 0 else "assistant", text) for place, text in enumerate(said))
    return Conversation("c", turns, tuple(map(Document, documents)))


@pytest.mark.parametrize("language", PAIRS)
def test_unrelated_reply_scores_below_a_fifth_of_a_related_one(language: str) -> None:
    mine = PAIRS[language]
    assert len(mine) == 50
    related = [ciu(fact, reply) for fact, reply in mine]
    unrelated = [ciu(mine[place - 1][0], reply) for place, (_, reply) in enumerate(mine)]
    assert min(related) > 0 and fmean(unrelated) < 0.2 * fmean(related)
    recognised = [ParsedText(text).words.language.code for pair in mine for text in pair]
    assert recognised.count(language) >= 90


def test_text_scores_do_not_depend_on_unicode_composition() -> None:
    for mine in PAIRS.values():
        for fact, reply in mine[:10]:
            apart = unicodedata.normalize("NFD", reply)
            assert ciu(fact, apart) == ciu(unicodedata.normalize("NFD", fact), reply) == ciu(fact, reply)
    assert tokens("ＡＢＣ ﬁve") == ["abc", "five"]
    assert tokens("हिन्दी में") == ["हिन्दी", "में"], "marks belong to the letters before them"


def test_text_without_spaces_is_split() -> None:
    assert ParsedText("鹭吃鱼和青蛙。").tokens == ["鹭吃", "吃鱼", "和", "青蛙"]
    assert list(ParsedText("サギは魚とカエルを食べます。").content) == ["サギ", "魚", "カエル", "食"]
    near = ParsedText("Ilikeheronsbecausetheyeatfish").content
    assert {"hero", "eron", "rons"} <= set(near)
    assert ParsedText("See https://example.com/herons/and/fish?page=2").tokens[1:4] == ["https", "example", "com"]


def test_known_languages_are_named_and_unknown_ones_reported() -> None:
    samples = [
        Sample(replace(chat("Hm?", text, documents=(text,)), id=str(place)), 1)
        for place, text in enumerate(
            ("Herons eat fish and frogs near the river.", GERMAN, UNKNOWN, "אנפות אוכלות דגים")
        )
    ]
    for names in (["ciu"], ["overlap-documents"]):
        table = measure(samples, names)
        english, german, latin, hebrew = (table.notes.get(sample.target) for sample in samples)
        assert english is None
        assert german is not None and german.shown == {"language": "de"} and german.warning is None
        assert latin is not None and latin.warning == (
            "unknown language (latin script): its words are compared without stemming"
        )
        assert hebrew is not None and "hebrew script" in str(hebrew.warning)


def test_a_language_can_be_named_and_is_part_of_the_signature() -> None:
    context = SourceContext(Rubric.model_construct())
    sample = Sample(chat("Hm?", "Häuser", documents=("Haus",)), 1)
    recognised, named = measure([sample], ["ciu"]), measure([sample], ["ciu"], language="de")
    assert recognised.values[0, 0] == 0 and named.values[0, 0] == 1, "a single word does not identify its language"
    assert "en-stop-190+porter" in recognised.columns[0].signature
    assert "words:de-stop-210+german" in named.columns[0].signature and not named.notes
    source = make_source("bank", {"language": "de"}, context)
    assert source.settings.model_dump() == {"language": "de"}
    with pytest.raises(UnknownName, match="unknown language 'xx'"):
        make_source("bank", {"language": "xx"}, context)


def test_live_and_batch_language_agree() -> None:
    said = ("Hi!", "Hallo!", "Was frisst der Reiher, und wo?", GERMAN, "Fische?", "Frösche, Fische.", "And in English?",
            "It eats the fish and the frogs of the river.")  # fmt: skip
    whole = chat(*said, documents=(GERMAN,))
    metrics = {name: turn_metrics.get(name) for name in BANK}
    session = MetricSession(metrics)
    for turn in (1, 3, 5, 7):
        assert session.measure(Sample(whole, turn)) == MetricSession(metrics).measure(Sample(whole, turn))
    short = MetricSession(metrics).measure(Sample(whole, 5))[0]
    assert short["ciu"] == pytest.approx(1 / 2 + 1 / 3), "a short reply has the language of the context"


def test_topical_chat_figures_hold_without_spaces(data: Path) -> None:
    records = [each for each in read(data / "topical_usr") if each.conversation.documents and each.labels]
    thai = str.maketrans({chr(97 + place): chr(0xE01 + place) for place in range(26)})

    def changed(conversation: Conversation, is_thai: bool) -> Conversation:
        def of(text: str) -> str:
            bare = text.replace(" ", "")
            return bare.lower().translate(thai) if is_thai else bare

        turns = tuple(replace(turn, content=of(turn.content)) for turn in conversation.turns)
        return replace(conversation, turns=turns, documents=tuple(Document(of(d.text)) for d in conversation.documents))

    for is_thai in (False, True):
        samples = [Sample(changed(each.conversation, is_thai), each.labels[0].target.turn) for each in records]
        found = measure(samples, ["ciu"]).values[:, 0]
        for question, least in (("Overall", 0.44), ("Uses Knowledge", 0.75)):
            people = np.array(
                [fmean(float(x.value) for x in each.labels if x.question == question) for each in records]  # type: ignore[arg-type]
            )
            spearman = STATISTICS["spearman"](Paired(people, np.arange(len(people)), np.zeros((len(people), 0)), found))
            assert spearman is not None and spearman >= least


@pytest.fixture(scope="module")
def english() -> Evaluator:
    texts = ["The heron is a bird that eats fish", "It is the best of all the birds that I know", "Herons are old"]
    return learned_from([f"{text} and {n} of them are there." for n in range(10) for text in texts])


def learned_from(replies: list[str]) -> Evaluator:
    chats = [replace(chat("Tell me.", text), id=f"c{n}") for n, text in enumerate(replies)]
    samples = tuple(Sample(each, 1) for each in chats)
    labels = Labels(Label(sample.target, "useful", "ann", 1 + n % 5) for n, sample in enumerate(samples))
    question = Question(id="useful", text="?", scale=Scale(options=(1, 2, 3, 4, 5)))
    context = SourceContext(Rubric(name="r", questions=(question,), main="useful"))
    about = EvaluatorSettings(head="curves")
    made = make_evaluator("m", about, question, context, ("metrics",), {"metrics": {"names": ["words", "asks"]}})
    return run(made.fit(Training(samples, labels, question)), memory_models())


def test_a_score_in_a_language_without_training_data_has_a_warning(english: Evaluator, tmp_path: Path) -> None:
    english.save(tmp_path)
    samples = [Sample(replace(chat("Tell me.", text), id=text), 1) for text in (GERMAN, UNKNOWN, "It is the heron.")]
    assert english.languages == ("en",)
    for evaluator in (english, load_evaluator(tmp_path)):
        german, unknown, plain = run(evaluator.predict(samples), memory_models())
        assert "language without training data: de (learned from en)" in str(german.warning)
        assert german.notes["language"] == "de" and german.to_json()["warning"] == german.warning
        assert "unknown language" in str(unknown.warning) and "without training data" not in str(unknown.warning)
        assert "language" not in str(plain.warning)
    live = LiveScorer(english).message("c", "assistant", GERMAN)
    assert isinstance(live, Score) and "language without training data: de" in str(live.warning)


def test_a_language_of_the_training_data_has_no_warning() -> None:
    evaluator = learned_from([f"{GERMAN} Und das sind {n} von ihnen, die dort sind." for n in range(30)])
    german, english = (Sample(replace(chat("Sag.", text), id=text), 1) for text in (GERMAN, "It is the heron of all."))
    scores = run(evaluator.predict([german, english]), memory_models())
    assert "language" not in str(scores[0].warning) and "data: en (learned from de)" in str(scores[1].warning)
