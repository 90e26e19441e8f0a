"""Plausibility check: fakes lose their score in a batch, live, as a reward, and after saving."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from zlib import crc32

import numpy as np
import pytest
from scripted_models import ScriptedLikelihood

from accord import Conversation, Label, Labels, Project, Question, Reward, Rubric, Scale, Store, Turn
from accord.edges import BadInput
from accord.evidence import (
    SourceContext,
    Training,
)
from accord.evidence.bank.reply_metrics import BANK
from accord.learning import (
    Evaluator,
    EvaluatorSettings,
    load_evaluator,
    make_evaluator,
)
from accord.learning.calibration.plausibility import (
    Plausibility,
    fakes,
)
from accord.live import LiveScorer
from accord.models import Likelihood, LikelihoodRequest, LikelihoodResult, Models, memory_models, run
from accord.project import LiveConfig, config_from
from accord.values import Sample, Score, Target, Unscored

CHECK = "plausibility check"
QUESTION = Question(id="useful", text="Is it useful?", scale=Scale(options=(1, 2, 3, 4, 5)))
SENTENCE = [
    "well",
    "now",
    "{0}",
    "is",
    "one",
    "of",
    "those",
    "old",
    "things",
    "that",
    "{0}",
    "people",
    "like",
    "to",
    "keep",
    "around",
    "near",
    "the",
    "house",
]
FOLLOWS = {(one, other) for one, other in zip(SENTENCE, SENTENCE[1:], strict=False)}


class Grammar(ScriptedLikelihood):
    """Likelihood model of word order and of words that a reply repeats from the question."""

    name = "grammar"

    def _one(self, passage: LikelihoodRequest) -> LikelihoodResult:
        [index] = passage.spoken
        before = " ".join(message.content for message in passage.messages[:index]).split()
        words = passage.messages[index].content.split()
        plain = ["{0}" if word.startswith("topic") else word for word in words]
        said = [-1.0 if pair in FOLLOWS else -5.0 for pair in zip(["", *plain], plain, strict=False)]
        topics = sum(word.startswith("topic") and (bool(before) and word not in before) for word in words)
        noise = crc32(passage.messages[index].content.encode()) % 100 / 100
        return (Likelihood(sum(said) - 8.0 * topics - noise, len(words)),)


def chats(count: int = 60) -> list[Conversation]:
    found = []
    for place in range(count):
        text = " ".join(SENTENCE[: 8 + place % 9]).format(f"topic{place}")
        found.append(Conversation(f"c{place}", (Turn("user", f"what of topic{place}"), Turn("assistant", text))))
    return found


def asking(model: Grammar) -> Models:
    return Models({}, Store("sqlite:///:memory:"), given={"likelihood": model})


@pytest.fixture(scope="module")
def evaluator() -> Evaluator:
    samples = tuple(Sample(chat, 1) for chat in chats())
    labels = Labels(Label(s.target, "useful", "ann", 3 + place % 3) for place, s in enumerate(samples))
    context = SourceContext(Rubric(name="useful", questions=(QUESTION,), main="useful"))
    about = EvaluatorSettings(head="curves", plausibility=True)
    bare = make_evaluator("mixture", about, QUESTION, context, ("metrics",), {"metrics": {"names": BANK}})
    train = Training(samples, labels, QUESTION)
    fitted = run(bare.fit(train), memory_models())
    assert fitted.roles == ("likelihood",) and fitted.plausibility is None
    return run(fitted.with_plausibility(train), asking(Grammar()))


def faked(kind: str) -> list[Sample]:
    samples = [Sample(chat, 1) for chat in chats()]
    return fakes(samples, lambda target: target.conversation, seed=7)[kind]


def scored(evaluator: Evaluator, samples: Sequence[Sample], models: Models | None = None) -> list[Score]:
    found = run(evaluator.predict(samples), models or asking(Grammar()))
    assert all(isinstance(each, Score) for each in found)
    return [each for each in found if isinstance(each, Score)]


def test_check_lowers_fakes_and_keeps_genuine_replies(evaluator: Evaluator) -> None:
    samples = [Sample(chat, 1) for chat in chats()]
    before, after = scored(evaluator.without_plausibility(), samples, memory_models()), scored(evaluator, samples)
    kept = fmean(each.value - 1 for each in after) / fmean(each.value - 1 for each in before)
    assert 0.9 < kept <= 1
    for kind, like in (("shuffled", "out of their order"), ("foreign", "something else"), ("random", "at random")):
        fake = scored(evaluator, faked(kind))
        unlowered = scored(evaluator.without_plausibility(), faked(kind), memory_models())
        if kind == "shuffled":
            assert fmean(each.value for each in unlowered) > fmean(each.value for each in before) - 0.3
        assert fmean(each.value for each in fake) < fmean(each.value for each in after) - 0.8
        said = [each.warning for each in fake if each.warning and "it reads like" in each.warning]
        assert len(said) > 40
        if kind == "foreign":
            assert sum(like in each for each in said) > len(said) / 2
        for checked, bare in zip(fake, unlowered, strict=True):
            p = checked.notes["plausibility"]
            assert sum(checked.probabilities) == pytest.approx(1)
            assert checked.value == pytest.approx(p * bare.value + (1 - p) * 1.0, abs=1e-3)
            assert dict(checked.attributions)["plausibility"] == pytest.approx(checked.value - bare.value)
    assert "plausibility:grammar" in str(after[0].signature) and "plausibility:grammar" in str(evaluator.signature())


def test_check_is_saved_and_a_damaged_one_is_rejected(evaluator: Evaluator, tmp_path: Path) -> None:
    evaluator.save(tmp_path)
    again = load_evaluator(tmp_path)
    assert scored(again, faked("shuffled")) == scored(evaluator, faked("shuffled"))
    assert again.digest() == evaluator.digest() != evaluator.without_plausibility().digest()
    card = json.loads((tmp_path / "evaluator.json").read_text(encoding="utf-8"))
    (tmp_path / "evaluator.json").write_text(
        json.dumps({**card, "plausibility": {"model": "x", "mean": [1]}}), encoding="utf-8"
    )
    with pytest.raises(BadInput, match="damaged evaluator"):
        load_evaluator(tmp_path)
    (tmp_path / "evaluator.json").write_text(json.dumps({**card, "plausibility": None}), encoding="utf-8")
    assert load_evaluator(tmp_path).plausibility is None


def test_reward_checks_every_reply(evaluator: Evaluator) -> None:
    model = Grammar()
    reward = Reward(evaluator, models=asking(model))
    real, shuffled, empty = (
        "well now topic1 is one of those old things",
        "old one things topic1 those well now of is",
        "...",
    )
    found = reward(["what of topic1"] * 3, [real, shuffled, empty])
    assert found[0] > found[1] + 0.8 and found[2] == 1.0
    assert len(model.asked) == 4, "two passages per scored reply, none for an unscored one"


def test_live_scoring_checks_a_share_of_replies(evaluator: Evaluator) -> None:
    def live(scorer: LiveScorer) -> list[Score | Unscored | None]:
        found = []
        for sample in faked("shuffled"):
            scorer.message(sample.conversation.id, "user", sample.conversation.turns[0].content)
            found.append(scorer.message(sample.conversation.id, "assistant", sample.conversation.turns[1].content))
        return found

    batch, bare = scored(evaluator, faked("shuffled")), scored(evaluator.without_plausibility(), faked("shuffled"))
    assert live(LiveScorer(evaluator)) == bare
    assert live(LiveScorer(evaluator, models=asking(Grammar()), limits=LiveConfig(plausibility_share=1))) == batch
    some = live(LiveScorer(evaluator, models=asking(Grammar()), limits=LiveConfig(plausibility_share=0.3)))
    checked = [isinstance(score, Score) and "plausibility" in score.notes for score in some]
    assert 0.1 < np.mean(checked) < 0.5
    assert some == [one if is_checked else other for one, other, is_checked in zip(batch, bare, checked, strict=True)]


def test_unmeasured_replies_warn(evaluator: Evaluator) -> None:
    [score] = scored(evaluator, [Sample(chats(1)[0], 1)], asking(Grammar(fail="too long")))
    [bare] = scored(evaluator.without_plausibility(), [Sample(chats(1)[0], 1)], memory_models())
    assert score.value == bare.value and "plausibility unknown" in str(score.warning)


def test_too_few_replies_are_rejected() -> None:
    samples = [Sample(chat, 1) for chat in chats(10)]
    with pytest.raises(BadInput, match="at least 20 replies in two groups, got 10"):
        run(Plausibility.learn(samples, lambda target: target.conversation), asking(Grammar()))
    with pytest.raises(BadInput, match="no reply"):
        run(
            Plausibility.learn([Sample(chat, 1) for chat in chats()], lambda target: target.conversation),
            asking(Grammar(fail="no echo")),
        )


NEW = [{"id": "n", "messages": [{"role": "user", "content": "what of topic1"},
                                {"role": "assistant", "content": "well now topic1 is one of those"}]}]  # fmt: skip


def project(replies: int, given: dict[str, Grammar] | None = None, **settings: object) -> Project:
    config = config_from({
        "store": "sqlite:///:memory:", "metrics": ["bank"], "draws": 20, "folds": 2,
        "models": {"likelihood": {"model": "grammar", "base_url": "http://localhost:9"}},
        "evaluators": {"m": {"sources": ["metrics"], "head": "ridge", **settings}},
    })  # fmt: skip
    opened = Project(
        config,
        Rubric(name="r", questions=(QUESTION,), main="useful"),
        {"likelihood": Grammar()} if given is None else given,
    )
    opened.store.add_conversations(chats(replies))
    labels = [Label(Target(f"c{n}", 1), "useful", who, 3 + n % 3) for n in range(replies) for who in ("a", "b")]
    opened.store.add_labels(labels)
    return opened


def test_a_configured_likelihood_model_turns_the_check_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with project(40) as checked:
        fitted = checked.fit("m", "checked")
        assert fitted.evaluator.plausibility is not None and not any(CHECK in line for line in fitted.cautions)
        assert fitted.evaluator.plausibility_text == "plausibility check by grammar"
        assert checked.score(NEW, evaluator=fitted.evaluator).plausibility == fitted.evaluator.plausibility_text
        assert checked.plan_fit("m").requests == 0, "all answers are stored"
        live = LiveScorer(fitted.evaluator)
        assert live.plausibility_text == "the plausibility check is off: start with --ask"
        live = LiveScorer(fitted.evaluator, models=checked.models)
        assert live.plausibility_text == "plausibility check by grammar on 10% of replies"


def test_the_plan_of_a_fit_counts_the_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    with project(40, given={}) as checked, project(40, given={}, plausibility=False) as plain:
        assert checked.plan_fit("m").requests >= 40 * 4 and plain.plan_fit("m").requests == 0


def test_the_check_is_left_out_with_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with project(40, plausibility=False) as off:
        fitted = off.fit("m", "off")
        assert fitted.evaluator.plausibility is None and not any(CHECK in line for line in fitted.cautions)
        assert "no plausibility check" in off.score(NEW, evaluator=fitted.evaluator).plausibility
        assert "no plausibility check" in LiveScorer(fitted.evaluator).plausibility_text
    with project(16) as few:
        fitted = few.fit("m", "few")
        [caution] = [line for line in fitted.cautions if CHECK in line]
        assert "no plausibility check: plausibility needs at least 20 replies" in caution
        assert fitted.evaluator.plausibility is None and fitted.evaluator.roles == ()
    with project(16, plausibility=True) as strict, pytest.raises(BadInput, match="at least 20 replies"):
        strict.fit("m", "strict")
