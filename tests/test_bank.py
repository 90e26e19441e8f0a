"""Metric bank: known values, languages, sessions and limits."""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace

import numpy as np
import pytest

from accord import Conversation, Document, Turn, embedded
from accord.edges import BadInput, MissingExtra
from accord.evidence import (
    CIU,
    STOP_WORDS,
    first_words,
    turn_metrics,
    word_count,
)
from accord.evidence.bank import reply_metrics as similarity
from accord.evidence.bank.reply_features import (
    ParsedDocument,
    ParsedText,
    TurnHistory,
)
from accord.evidence.bank.reply_metrics import (
    BANK,
    REFERENCE,
    score,
)
from accord.evidence.bank.session import MetricSession
from accord.evidence.bank.words import (
    stems,
    tokens,
)
from accord.evidence.metric_source import (
    measure,
    signature_of,
)
from accord.formats import read
from accord.project import config_from
from accord.statistics import STATISTICS, Paired
from accord.values import Sample

FACT = "The heron is a long-legged bird. Herons eat fish, frogs and insects near rivers."


def after(*said: tuple[str, str], documents: tuple[str, ...] = (FACT,)) -> tuple[TurnHistory, list[ParsedDocument]]:
    history = TurnHistory()
    for role, text in said:
        history.add(ParsedText(text), role == "assistant")
    return history, [ParsedDocument(text) for text in documents]


def test_words_are_lower_case_of_any_script_and_stemmed() -> None:
    assert tokens("Don't  STOP_here: café №5, 雨!") == ["don't", "stop", "here", "café", "5", "雨"]
    assert tokens("ｆｉｖｅ Brand™ co\u00adoperate caf\u0065\u0301") == ["five", "brand", "cooperate", "café"], "NFKC"
    assert tokens("it's a 5'9 rock'n'roll") == ["it's", "a", "5", "9", "rock'n", "roll"]
    assert stems(["running", "the", "herons", "雨"]) == ["run", "", "heron", "雨"]
    assert {"you're", "the", "n't"} <= STOP_WORDS
    rng = random.Random(0)
    for _ in range(3000):
        text = "".join(rng.choice("aBe1 's_-.\té雨") for _ in range(rng.randint(0, 15)))
        message = ParsedText(text)
        assert message.content == Counter(stem for stem in message.words.stems(tokens(text)) if stem)
        assert message.tokens == tokens(text)
        assert message.units == [stem or word for stem, word in zip(message.stems, message.tokens, strict=True)]
        latin = text.replace("雨", " ")
        assert tokens(latin) == re.findall(r"[^\W_]+(?:'[^\W\d_]+)?", latin.lower())


def test_ciu_is_equation_1() -> None:
    history, sources = after(("user", "What do herons eat?"), ("assistant", "Herons eat fish."))
    reply = ParsedText("Fish, and also frogs! Fish from rivers, says my uncle")
    said = Counter(stem for text in ("What do herons eat?", "Herons eat fish.") for stem in stems(tokens(text)) if stem)
    here = Counter(stem for stem in reply.stems if stem)
    inside = {"fish", "frog", "river"}

    def by_hand(g: float, effort: float, frequency: bool, beta: float) -> float:
        total = 0.0
        for stem in here:
            gamma = 1 - g * reply.stems.index(stem) / len(reply.tokens)
            worth = gamma / (said[stem] + here[stem] if frequency else 1)
            total += worth if stem in inside else beta * worth
        return total - effort * len(reply.tokens)

    for g, effort, frequency, beta in ((0, 0, True, 0), (1, 0.005, True, 0), (0.5, 0, False, 0), (0, 0, True, 0.25)):
        found = CIU(position=g, frequency=frequency, effort=effort, unsupported=beta)(reply, history, sources)
        assert found == pytest.approx(by_hand(g, effort, frequency, beta))
    assert CIU()(reply, history, []) is None
    two = [ParsedDocument("Nothing of that."), *sources]
    assert CIU()(reply, history, two) == CIU()(reply, history, sources), "the best document counts"
    persona = [ParsedDocument("your persona: " + FACT)]
    assert CIU()(reply, history, persona) == CIU()(reply, history, sources)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"ciu": {"position": 1.0, "effort": "paper", "frequency": False, "phrases": False}},
         "ciu@position=1,frequency=false,effort=0.005"),
        ("ciu@effort=paper, position=1.0", "ciu@position=1,effort=0.005"),
        ({"ciu": {"phrases": True}}, "ciu@phrases=true"),
        ({"ciu": {"position": 0}}, "ciu"),
        ("ciu-paper", "ciu-paper"),
    ],
)  # fmt: skip
def test_settings_of_ciu_are_part_of_its_name_and_signature(given: object, name: str) -> None:
    [named] = config_from({"metrics": [given]}).metrics
    assert named == name and f"name:{name}" in str(signature_of(named))
    history, sources = after(("user", "What do herons eat?"))
    by_hand = turn_metrics.get(named)(ParsedText("Herons eat fish"), history, sources)
    chat = Conversation("c", (Turn("user", "What do herons eat?"), Turn("assistant", "Herons eat fish")),
                        (Document(FACT),))  # fmt: skip
    assert measure([Sample(chat, 1)], [given]).values[0, 0] == by_hand  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ciu": {"positon": 1}}, "metrics: metric ciu: unknown key 'positon'. Did you mean 'position'?"),
        ({"ciu": {"position": 2}}, "position: Input should be less than or equal to 1, got 2"),
        ("ciu@effort=-1", "effort: Input should be greater than or equal to 0"),
        ({"words": {"position": 1}}, "a metric is a name, or `ciu: {SETTING: VALUE}`, got {'words'"),
        (3, "a metric is a name"),
    ],
)
def test_wrong_settings_of_a_metric_are_refused(given: object, said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(said)):
        config_from({"metrics": [given]})


def test_rake_keeps_a_third_as_many_phrases_as_content_words() -> None:
    document = ParsedDocument("Long blue legged birds eat fish. Frogs, and fish of the big rivers.")
    # 9 words, 3 phrases: the first (its words have degree / frequency 6 and 7/2), big river (4), fish (7/2); frog has 1
    assert document.phrase_content == {"long", "blue", "leg", "bird", "eat", "fish", "big", "river"}
    reply, history = ParsedText("Frogs eat fish in rivers"), TurnHistory()
    assert CIU()(reply, history, [document]) == 4 and CIU(phrases=True)(reply, history, [document]) == 3


def test_overlap_novelty_and_length() -> None:
    history, sources = after(
        ("user", "What do herons eat near the river?"), ("assistant", "A heron eats fish and frogs.")
    )
    reply = ParsedText("A heron eats fish. Do you like cold rivers?")

    def value(name: str) -> float | None:
        return turn_metrics.get(name)(reply, history, sources)

    own = ["heron", "eat", "fish", "like", "cold", "river"]
    assert list(reply.content) == own
    assert value("document-share") == pytest.approx(4 / 6)
    assert value("question-share") == pytest.approx(3 / 4)  # heron, eat, near, river
    assert value("history-share") == pytest.approx(4 / 6)
    assert value("new-words") == 2 and value("content-words") == 6 and value("words") == 9
    assert value("repeated-trigrams") == pytest.approx(2 / 7)
    assert value("asks") == 1 and value("distinct-share") == 1
    assert value("content-share") == pytest.approx(6 / 9)
    letters = sum(map(len, reply.tokens))
    assert value("readability") == pytest.approx(4.71 * letters / 9 + 0.5 * 9 / 2 - 21.43)


def copied(metric: str, own: Sequence[str], other: Sequence[str]) -> float | None:
    """Return a metric of some words, given a document of other words."""
    return turn_metrics.get(metric)(ParsedText(" ".join(own)), TurnHistory(), [ParsedDocument(" ".join(other))])


def test_rouge_l_and_longest_run_equal_plain_implementations() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        own, other = (["wxyz"[i] + "q" for i in rng.integers(4, size=rng.integers(1, 14))] for _ in range(2))
        table = np.zeros((len(own) + 1, len(other) + 1), dtype=int)
        runs = np.zeros_like(table)
        for i, a in enumerate(own):
            for j, b in enumerate(other):
                table[i + 1, j + 1] = table[i, j] + 1 if a == b else max(table[i, j + 1], table[i + 1, j])
                runs[i + 1, j + 1] = runs[i, j] + 1 if a == b else 0
        assert copied("rouge-l", own, other) == pytest.approx(2 * table[-1, -1] / (len(own) + len(other)))
        assert copied("copied-run", own, other) == runs.max()
    names = [f"w{letter}{other}" for letter in "abcdefghij" for other in "qvxzjkwbfg"]
    for length in (1, 2, 3, 7, 8, 9, 63, 64, 65):
        assert copied("copied-run", names[:length], names) == length
    assert ParsedText("the herons").units == ["the", "heron"]


def test_meteor_by_its_formula_and_its_authors_example() -> None:
    same = ["the", "cat", "sat", "on", "the", "mat"]
    assert score(same, same) == pytest.approx(1 - 0.5 * (1 / 6) ** 3)
    moved = ["on", "the", "mat", "sat", "the", "cat"]
    # all six match; of two "the" the last is paired with the last, so that no two neighbours stay neighbours
    assert score(moved, same) == pytest.approx(1 - 0.5)
    # three matches of four and five words in two chunks, one of them by its stem
    own, other = ["birds", "eat", "blue", "fish"], ["the", "bird", "eats", "tasty", "fish"]
    precision, recall = 3 / 4, 3 / 5
    mean = precision * recall / (0.9 * precision + 0.1 * recall)
    assert score(own, other) == pytest.approx(mean * (1 - 0.5 * (2 / 3) ** 3))
    assert score([], other) == score(own, []) == 0


def test_bertscore_is_greedy_matching_weighted_by_idf(monkeypatch: pytest.MonkeyPatch) -> None:
    states = {
        "own": ((2000, 3000), np.array([[1.0, 0.0], [0.0, 1.0]])),
        "fact": ((1996, 4000, 5000), np.array([[1.0, 0.0], [0.6, 0.8], [0.0, -1.0]])),
    }
    states["empty"] = ((), np.zeros((0, 2)))
    embedder = SimpleNamespace(token_states=states.__getitem__)
    monkeypatch.setattr(embedded, "open_sentence_embedder", lambda name: embedder)
    similarity.scores.cache_clear()
    w = np.log([2.0 + 0, 2.0 + 2004, 2.0 + 3004])
    recall = (w * [1.0, 0.8, 0.0]).sum() / w.sum()
    v = np.log([2.0 + 4, 2.0 + 1004])
    precision = (v * [1.0, 0.8]).sum() / v.sum()
    assert similarity.scores("minilm-l6", "own", "fact") == pytest.approx(
        (recall, precision, 2 * precision * recall / (precision + recall))
    )
    assert similarity.scores("minilm-l6", "empty", "fact") == (0, 0, 0)
    both = turn_metrics.get("bertscore-recall")(
        ParsedText("own"), TurnHistory(), [ParsedDocument("empty"), ParsedDocument("fact")]
    )
    assert both == pytest.approx(recall)
    assert turn_metrics.get("bertscore-f1")(ParsedText("own"), TurnHistory(), []) is None
    similarity.scores.cache_clear()


def test_meteor_without_nltk_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nltk.translate.meteor_score", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[references\]"):
        score(["a"], ["a"])


def test_a_session_gives_what_the_whole_conversation_gives() -> None:
    turns = (("user", "What do herons eat?"), ("assistant", "Herons eat fish."), ("user", "Fish? And frogs?"),
             ("assistant", "Frogs too, herons eat frogs near rivers."))  # fmt: skip
    conversation = Conversation("c", tuple(Turn(*turn) for turn in turns), (Document(FACT),))
    names = [*BANK, "meteor"]
    metrics = {name: turn_metrics.get(name) for name in names}
    session, found = MetricSession(metrics, [FACT]), []
    for role, text in turns:
        if role == "user":
            session.hear(text)
        else:
            found.append(session.reply(text))
    whole, reasons = MetricSession(metrics).measure(Sample(conversation))
    assert not reasons
    assert whole == {name: pytest.approx(fmean(each[name] for each in found)) for name in names}  # type: ignore[type-var]
    assert MetricSession(metrics).measure(Sample(conversation, 3))[0] == pytest.approx(found[1])
    assert MetricSession(metrics).measure(Sample(conversation, 1))[0] == pytest.approx(found[0])
    table = measure([Sample(conversation), Sample(conversation, 3)], names)
    assert table.values[0].tolist() == pytest.approx(list(whole.values()))
    assert "words:en-stop" in table.columns[0].signature and "exact+stem" in table.columns[-1].signature


def test_every_line_of_a_persona_is_a_fact() -> None:
    lines = ["your persona: i like herons.", "your persona: i live in paris.", "  your persona: my persona: odd."]
    document = ParsedDocument("\n".join(lines))
    assert document.text == "i like herons.\ni live in paris.\nmy persona: odd."
    assert "persona" in document.tokens and document.tokens.count("your") == 0
    reply = ParsedText("Do I like your persona?")
    found = turn_metrics.get("document-share")(reply, TurnHistory(), [ParsedDocument("\n".join(lines[:2]))])
    assert found == pytest.approx(1 / 2)  # of like and persona
    assert ParsedDocument("What is your persona: a bird?").text == "What is your persona: a bird?"


def test_a_reply_without_words_adds_nothing_to_the_mean_of_a_conversation() -> None:
    said = [Turn("user", "What do herons eat?"), Turn("assistant", "Herons eat fish.")]
    plain, odd = Conversation("c", tuple(said)), Conversation("c", (*said, Turn("assistant", "👍")))
    names = [name for name in BANK if turn_metrics.get(name)(ParsedText("fish"), TurnHistory(), []) is not None]
    one, other = measure([Sample(plain)], names), measure([Sample(odd)], names)
    assert one.present.all() and one.values.tolist() == other.values.tolist() and not other.absences


def test_document_metrics_are_missing_without_documents() -> None:
    conversation = Conversation("c", (Turn("user", "hello"), Turn("assistant", "Hello, how are you?")))
    table = measure([Sample(conversation)], [*BANK, *REFERENCE])
    assert {name for (_, name) in table.absences} == {"ciu", "document-share", "rouge-l", "copied-run", *REFERENCE}


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "word " * 100_000,
        "مرحبا بالعالم",
        "今日は雨です",
        "👩‍👩‍👧‍👦 🎉",
        "\ud800 broken \udfff",
        "nul\0nul",
        "a" * 1_000_000,
    ],
    ids=["empty", "blank", "one word", "right to left", "cjk", "emoji", "surrogates", "nul", "long word"],
)
def test_any_text_is_measured(text: str) -> None:
    metrics = {name: turn_metrics.get(name) for name in [*BANK, "meteor"]}
    session = MetricSession(metrics, [text, FACT])
    first = session.reply(text)  # a reply before any question
    session.hear(text)
    second = session.reply(FACT)
    for value in (*first.values(), *second.values()):
        assert value is None or np.isfinite(value)


def test_a_document_of_ten_megabytes() -> None:
    words = np.random.default_rng(0).choice([f"word{i}" for i in range(5000)], 1_500_000)
    session = MetricSession({name: turn_metrics.get(name) for name in BANK}, [" ".join(words)])
    found = session.reply(" ".join(words[1000:1020]))
    assert found["copied-run"] == 20 and found["document-share"] == 1


def test_long_text_is_read_up_to_its_limit() -> None:
    for text in ("", "one", "one two  three", "a.b.c.d", "雨" * 30, "x" * 100, "it's " * 5):
        for most in (1, 2, 3, 4, 20):
            short = first_words(text, most)
            assert text.startswith(short) and word_count(short) <= most
            assert (short == text) == (word_count(text) <= most)


def test_the_figures_of_the_notes_on_topical_chat(data: Path) -> None:
    metrics = {name: turn_metrics.get(name) for name in ("ciu", "ciu-paper", "ciu-unsupported", "bleu", "rouge-l")}
    expected = {
        "ciu": (0.467, 0.796), "ciu-paper": (0.438, 0.749), "ciu-unsupported": (0.521, 0.781),
        "bleu": (0.317, 0.652), "rouge-l": (0.367, 0.712),
    }  # fmt: skip
    if find_spec("sacrebleu") is None:
        metrics.pop("bleu")
    values: dict[str, list[float]] = {name: [] for name in metrics}
    people: dict[str, list[float]] = {"Overall": [], "Uses Knowledge": []}
    for record in read(data / "topical_usr"):
        if record.conversation.documents:
            turn = record.labels[0].target.turn
            for name, value in MetricSession(metrics).measure(Sample(record.conversation, turn))[0].items():
                assert value is not None
                values[name].append(value)
            for question, said in people.items():
                said.append(fmean(float(x.value) for x in record.labels if x.question == question))  # type: ignore[arg-type]
    assert len(people["Overall"]) == 312
    for name, found in values.items():
        for (question, said), figure in zip(people.items(), expected[name], strict=True):
            truth = np.array(said)
            paired = Paired(truth, np.arange(312), np.zeros((312, 0)), np.array(found))
            assert STATISTICS["spearman"](paired) == pytest.approx(figure, abs=0.005), (name, question)


def test_copied_reply_has_a_warning() -> None:
    document = " ".join(f"the word{place} and" for place in range(20))
    said = [Turn("user", "Tell me."), Turn("assistant", document), Turn("user", "Again?"), Turn("assistant", document)]
    said += [
        Turn("user", "And?"),
        Turn("assistant", "It says the word1 and the word9, among many of the other things that are there."),
    ]
    whole = Conversation("c", tuple(said), (Document(document),))
    of_document = "copied from a document: 60 of 60 words in a row"
    of_reply = "copied from an earlier reply: 100% of its word trigrams"
    samples = [Sample(whole, 1), Sample(whole, 3), Sample(whole, 5), Sample(whole)]
    notes = measure(samples, BANK).notes
    found = [note.warning if (note := notes.get(sample.target)) else None for sample in samples]
    assert found == [of_document, f"{of_document}; {of_reply}", None, f"{of_document}; {of_reply}"]


def test_turns_of_several_conversations_may_be_mixed():
    """Sessions live until the last sample of their conversation."""
    chats = [
        Conversation(name, tuple(Turn(("user", "assistant")[n % 2], f"{name} said {n} {name * n}") for n in range(8)))
        for name in ("ab", "cd")
    ]
    apart = [Sample(chat, turn) for chat in chats for turn in (1, 3, 7)]
    mixed = [apart[place] for place in (0, 3, 1, 4, 5, 2)]
    one, other = measure(apart, list(BANK)), measure(mixed, list(BANK)).take([0, 2, 5, 1, 3, 4])
    assert one.targets == other.targets and (one.values == other.values).all() and (one.present == other.present).all()
    for place, sample in enumerate(apart):
        assert (measure([sample], list(BANK)).values == one.values[place]).all()


def test_reply_of_stop_words_alone_shares_nothing_with_documents() -> None:
    history, sources = after(("user", "What is it?"))
    reply = ParsedText("It is what it is.")
    assert list(reply.content) == [] and turn_metrics.get("document-share")(reply, history, sources) == 0.0
    assert turn_metrics.get("history-share")(reply, history, sources) is None
    whole = turn_metrics.get("document-share")(ParsedText("Herons eat fish"), history, sources)
    assert whole == 1.0


@pytest.mark.parametrize(
    ("reply", "document", "matches"),
    [
        ("Die Kinder spielten mit den Hunden im Garten.", "Das Kind spielte mit dem Hund im Garten.", 6),
        ("The children were playing with dogs.", "The children play with a dog.", 5),
    ],
)
def test_meteor_matches_stems_of_the_language_of_the_reply(reply: str, document: str, matches: int) -> None:
    own, other = ParsedText(reply), ParsedDocument(document)
    stems_of_both = Counter(map(own.words.stem_of, own.tokens)) & Counter(map(own.words.stem_of, other.tokens))
    assert stems_of_both.total() == matches
    found = turn_metrics.get("meteor")(own, TurnHistory(), [other])
    assert found == pytest.approx(score(own.tokens, other.tokens, own.words.stem_of))
    precision, recall = matches / len(own.tokens), matches / len(other.tokens)
    assert found is not None and found > 0.5 * precision * recall / (0.9 * precision + 0.1 * recall)
