"""Fine-tuning: a model with random weights learns a planted phrase, and a resumed training has the same result."""

from __future__ import annotations

import gc
import json
import pickle
import random
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from tiny_models import write_tiny_lm

from accord.edges import (
    BadInput,
    MissingExtra,
    ModelError,
    UnknownName,
)
from accord.embedded import huggingface as hf_trial
from accord.embedded.huggingface import open_folder, open_hf
from accord.finetune import Parts, TrainingSettings, evaluate, examples_of, export, predict, split_by_dialogue, train
from accord.finetune.data import TOO_LONG, Encoded, TrainingExample, encode
from accord.finetune.training import TRAINING, Trained
from accord.methods import (
    IssuePromptBuilder,
    read_verdict,
)
from accord.methods.issues.issue_prompts import ReplyVerdict
from accord.models import (
    MADE,
    Answer,
    CallFailed,
    ChatMessage,
    ClientOptions,
    Prompt,
    open_judge,
    open_uncached,
    wait,
)
from accord.models.factory import open_likelihood
from accord.models.requests.flow import run_flow
from accord.values import (
    Conversation,
    Issue,
    IssueAnnotation,
    Question,
    Sample,
    Scale,
    ScaleKind,
    Target,
    Turn,
    Unannotated,
    load_taxonomy,
)

# Looked for and not imported: PyTorch and what stands on it would take as long to collect as all other tests.
pytestmark = [
    pytest.mark.slow,  # PyTorch alone takes seconds to import
    pytest.mark.skipif(
        not all(map(find_spec, ("torch", "transformers", "peft", "sacrebleu"))),
        reason="accord[finetune,references] is not installed",
    ),
]
TAXONOMY = load_taxonomy("soda-eval")
SHORT = IssuePromptBuilder(TAXONOMY, by_schema=False, style="compact")
PLANTED = {
    "who are you again": ("Coherence", 2, "It forgets the user."),
    "fish live in trees": ("Commonsense", 1, "It lacks common sense."),
    "as i said before": ("Repetition", 3, "It repeats itself."),
}
SMALL_TALK = ["nice day", "i like tea", "my dog is old", "see you soon", "that is good", "we went home"]


def planted(count: int, seed: int = 0) -> list[tuple[Conversation, IssueAnnotation]]:
    """Dialogues of two replies; a planted phrase in half of the replies sets issue and score."""
    rng = random.Random(seed)
    pairs = []
    for number in range(count):
        said = [rng.choice(SMALL_TALK) for _ in range(4)]
        found: list[tuple[int, str | None]] = []
        for turn in (1, 3):
            phrase = rng.choice(list(PLANTED)) if rng.random() < 0.5 else None
            found.append((turn, phrase))
            said[turn] = f"{said[turn]} {phrase}" if phrase else said[turn]
        roles = ("user", "assistant")
        conversation = Conversation(f"d{number:03d}", tuple(Turn(roles[i % 2], each) for i, each in enumerate(said)))
        for turn, phrase in found:
            kind, score, why = PLANTED[phrase] if phrase else ("", 5, "It is a good reply.")
            issues = (Issue(kind, "Wrong.", phrase, (0, 1)),) if phrase else ()
            pairs.append((conversation, IssueAnnotation(Target(conversation.id, turn), issues, score, why, "planted")))
    return pairs


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Use one thread: PyTorch's threads spin while they wait."""
    import torch
    import transformers.trainer  # noqa: F401 - what training will import

    gc.collect()
    gc.freeze()  # accelerate collects garbage before each training
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def examples() -> list[TrainingExample]:
    return examples_of(planted(150), SHORT)


@pytest.fixture(scope="module")
def parts(examples: list[TrainingExample]) -> Parts:
    return split_by_dialogue(examples, (0.7, 0.15, 0.15))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, examples: list[TrainingExample]) -> Path:
    texts = [text for example in examples for text in (example.prompt, example.answer)]
    return write_tiny_lm(tmp_path_factory.mktemp("base") / "tiny", texts, vocabulary=600, width=32)


ALL_WEIGHTS = TrainingSettings(rank=0, learning_rate=6e-3, epochs=8, batch=4, accumulate=1, max_tokens=240)


@pytest.fixture(scope="module")
def trained(base: Path, parts: Parts, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    folder = tmp_path_factory.mktemp("training")
    return train(base, parts.train, parts.validation, SHORT, folder, ALL_WEIGHTS)


@pytest.fixture(scope="module")
def exported(trained: Trained, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return export(trained.folder, tmp_path_factory.mktemp("models") / "evaluator")


# --- training --------------------------------------------------------------------------------------------------------


def test_model_learns_the_planted_phrase(exported: Path, trained: Trained, parts: Parts) -> None:
    model = open_hf(f"hf:{exported}")
    samples = [example.sample for example in parts.test]
    found = run_flow(predict(samples, SHORT, model.name), model)
    tested = {sample.target for sample in samples}
    reference = [assessment for _, assessment in planted(150) if assessment.target in tested]
    rows = {(row["statistic"], row["of"]): row for row in evaluate(found, reference)}
    assert rows["spearman", "scores"]["low"] > 0.6 and rows["pearson", "scores"]["low"] > 0.6
    assert rows["types_equal", "turns with issues, all kinds"]["value"] > 0.8  # chance: a third of a half
    assert rows["bleu4", "comments"]["value"] > 60
    assert rows["unread", "any reason"]["value"] < 0.1
    assert trained.validation[trained.epoch] == min(trained.validation) < trained.validation[0] / 4


def test_export_describes_its_training(exported: Path, trained: Trained, parts: Parts) -> None:
    made = json.loads((exported / MADE).read_text(encoding="utf-8"))
    assert made["guidance"]["taxonomy"]["name"] == TAXONOMY.name and made["guidance"]["hash"] == SHORT.hash
    assert made["settings"] == asdict(ALL_WEIGHTS) and made["base"]["name"] == "tiny"
    assert tuple(made["validation"]) == trained.validation and made["epoch"] == trained.epoch
    assert made["counts"]["train"]["turns"] == made["lessons"]["train"]["learned"] == len(parts.train)
    assert str(exported.parent) not in (exported / MADE).read_text(encoding="utf-8") and "base_path" not in made
    assert not list(exported.glob("*.bin")) and list(exported.glob("*.safetensors"))


def test_export_works_as_a_judge(exported: Path) -> None:
    scale = Scale(kind=ScaleKind.ORDINAL, options=(1, 2, 3, 4, 5))
    question = Question(id="overall", text="How good is it?", scale=scale)
    name = f"hf:{exported}"
    judge = open_judge("logprobs", name, None, "", ClientOptions(), 1)
    [answer] = wait(judge.answer(Sample(planted(1)[0][0], 1), [question]))
    assert isinstance(answer, Answer) and sum(answer.probabilities.values()) == pytest.approx(1 - answer.outside)
    assert judge.name == "hf:evaluator" and open_uncached(name, None, ClientOptions()).endpoint.startswith(
        "hf:evaluator:"
    )
    with pytest.raises(BadInput, match="only embedded:NAME"):
        open_likelihood(name, None, ClientOptions())
    with pytest.raises(BadInput, match="use mode logprobs"):
        open_judge("decisions", name, None, "", ClientOptions(), 1)


# --- one training, stopped or not -------------------------------------------------------------------------------------


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Enable Ctrl-C, which background jobs of a shell ignore."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupt_at(step: int) -> Callable[[int, int], None]:
    def interrupt(done: int, _: int) -> None:
        if done == step:
            signal.raise_signal(signal.SIGINT)

    return interrupt


def _weights(folder: Path, step: int) -> dict[str, np.ndarray]:
    [path] = (folder / f"checkpoint-{step}").glob("*.safetensors")
    return load_file(path)


@pytest.mark.parametrize("rank", [0, 4])
def test_resumed_training_equals_an_uninterrupted_one(
    base: Path, parts: Parts, tmp_path: Path, rank: int, interrupts: None
) -> None:
    settings = TrainingSettings(
        rank=rank, dropout=0.2, epochs=2, batch=3, accumulate=2, checkpoint_every=3, max_tokens=200
    )
    some, others = parts.train[:24], parts.validation[:6]  # four steps an epoch; checkpoints after 3, 4, 6 and 8
    whole = train(base, some, others, SHORT, tmp_path / "whole", settings)
    for step in (2, 5, 7):
        with pytest.raises(KeyboardInterrupt):
            train(base, some, others, SHORT, tmp_path / "parts", settings, resume=True, on_step=_interrupt_at(step))
    with pytest.raises(BadInput, match="is not finished"):
        export(tmp_path / "parts", tmp_path / "model")
    (tmp_path / "parts" / "checkpoint-7").mkdir()  # one that was interrupted while it was written
    steps: list[tuple[int, int]] = []
    ended = train(
        base, some, others, SHORT, tmp_path / "parts", settings, resume=True, on_step=lambda *at: steps.append(at)
    )
    assert steps == [(7, 8), (8, 8)] and len(ended.validation) == len(ended.training) == 2
    assert replace(ended, folder=whole.folder) == whole
    one, other = (_weights(tmp_path / folder, whole.step) for folder in ("whole", "parts"))
    assert one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("rank", [0, 4])
def test_loss_covers_answers_alone(base: Path, parts: Parts, tmp_path: Path, rank: int) -> None:
    """With a tiny learning rate, both losses are those of the base, computed here row by row."""
    import torch

    settings = TrainingSettings(
        rank=rank, dropout=0.0, learning_rate=1e-12, epochs=1, batch=3, accumulate=2, max_tokens=200
    )
    some, others = parts.train[:6], parts.validation[:5]
    found = train(base, some, others, SHORT, tmp_path / "training", settings)
    opened = open_folder(base)

    def nats(row: Encoded) -> np.ndarray:
        with torch.no_grad():
            mass = torch.log_softmax(opened.model(torch.tensor([row.tokens])).logits[0].double(), dim=-1).numpy()
        return np.array([-mass[place - 1, row.tokens[place]] for place in range(row.answer, len(row.tokens))])

    losses = [[nats(row) for row in encode(part, SHORT, opened, 200).rows] for part in (some, others)]
    assert found.training == (pytest.approx(np.concatenate(losses[0]).mean(), rel=1e-4),)
    assert found.validation == (pytest.approx(np.mean([each.mean() for each in losses[1]]), rel=1e-4),)


def test_lora_adapts_a_few_matrices_and_merges(base: Path, parts: Parts, tmp_path: Path) -> None:
    settings = TrainingSettings(rank=4, learning_rate=2e-2, epochs=2, batch=8, accumulate=1, max_tokens=200)
    found = train(base, parts.train[:64], parts.validation[:16], SHORT, tmp_path / "training", settings)
    assert found.training[1] < found.training[0]
    assert all("lora_" in name for name in _weights(tmp_path / "training", found.step))
    merged = export(tmp_path / "training", tmp_path / "model")
    before, after = (load_file(folder / "model.safetensors") for folder in (base, merged))
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed and all("proj" in name for name in changed)


# --- examples --------------------------------------------------------------------------------------------------------


def test_answer_parses_to_its_assessment() -> None:
    conversation = Conversation("c", (Turn("user", "hi"), Turn("assistant", 'so "it" is\n{late}')))
    issues = (Issue("Fluency", 'A "brace"', '"it" is', (3, 10)), Issue("Other", "Made up.", "never said"))
    made = IssueAnnotation(Target("c", 1), issues, 2, "It is { odd }", "somebody")
    [example] = examples_of([(conversation, made)], IssuePromptBuilder(TAXONOMY))
    verdict = read_verdict(example.answer)
    assert isinstance(verdict, ReplyVerdict) and (verdict.score, verdict.comment) == (2, "It is { odd }")
    assert [(s.type, s.quote) for s in verdict.issues] == [("Fluency", '"it" is'), ("Other", "")]
    assert example.types == {"Fluency", "Other"} and "Commonsense" in example.prompt and not verdict.losses
    assert "Commonsense" not in SHORT.of_turn(example.sample).messages[0].content


def test_examples_need_one_turn_each() -> None:
    [(conversation, made), *_] = planted(1)
    for wrong, said in [
        ([(conversation, replace(made, target=Target("else", 1)))], "is paired with"),
        ([(conversation, replace(made, target=Target(conversation.id)))], "belongs to no turn"),
        ([(conversation, replace(made, target=Target(conversation.id, 9)))], "belongs to no turn"),
        ([(conversation, made), (conversation, made)], "two assessments"),
    ]:
        with pytest.raises(BadInput, match=said):
            examples_of(wrong, SHORT)
    with pytest.raises(UnknownName, match="compact"):
        IssuePromptBuilder(TAXONOMY, style="compactt")


def test_split_is_by_dialogue_and_balanced(examples: list[TrainingExample]) -> None:
    parts = split_by_dialogue(examples)
    dialogues = [{e.target.conversation for e in part} for part in (parts.train, parts.validation, parts.test)]
    assert sum(map(len, dialogues)) == len(set.union(*dialogues)) == 150
    rows = parts.counts()
    assert [row["turns"] for row in rows] == pytest.approx([210, 60, 30], abs=3)
    whole = examples_counts = {score: sum(e.score == score for e in examples) for score in (1, 2, 3, 5)}
    for row, share in zip(rows, (0.7, 0.2, 0.1), strict=True):
        assert all(abs(row["scores"][str(score)] - share * whole[score]) <= 2 for score in examples_counts)
        assert set(row["types"]) == {"Coherence", "Commonsense", "Repetition", "none"}
    assert split_by_dialogue(examples[::-1]).counts() == rows and split_by_dialogue(examples) == parts
    assert split_by_dialogue(examples, seed=1).test != parts.test


def test_rare_kind_is_in_every_part() -> None:
    made = [
        (conversation, replace(found, issues=(Issue("Antisocial", "Rude."),), score=1))
        if found.target.turn == 1 and place % 2 == 0 and place < 20
        else (conversation, replace(found, issues=(), score=5))
        for place, (conversation, found) in enumerate(planted(100))
    ]
    rows = split_by_dialogue(examples_of(made, SHORT)).counts()
    assert [row["types"]["Antisocial"] for row in rows] == [7, 2, 1]


def test_split_of_few_dialogues(examples: list[TrainingExample]) -> None:
    assert [row["dialogues"] for row in split_by_dialogue(examples[:6]).counts()] == [1, 1, 1]
    with pytest.raises(BadInput, match="2 assessed dialogues"):
        split_by_dialogue(examples[:4])
    for shares in [(0.7, 0.2, 0.2), (1.0, 0.0, 0.0), (0.8, 0.2)]:
        with pytest.raises(BadInput, match="with sum 1"):
            split_by_dialogue(examples, shares)  # type: ignore[arg-type]


def test_long_example_loses_first_turns_and_keeps_its_answer(base: Path, examples: list[TrainingExample]) -> None:
    opened = open_folder(base)
    last = [example for example in examples if example.target.turn == 3][:8]
    talk = "i like tea and my dog is old " * 10
    long = [_beginning_with(example, talk) for example in last]
    fits = encode(last, SHORT, opened, 200)
    assert fits.shortened == 0 and not fits.left_out
    cut = encode(long, SHORT, opened, 200)
    assert len(cut.rows) == cut.shortened == 8 and not cut.left_out
    for row, example in zip(cut.rows, long, strict=True):
        text = opened.tokenizer.decode(row.tokens)
        assert (
            len(row.tokens) <= 200 and "left out here" in text and example.sample.conversation.turns[3].content in text
        )
        assert opened.tokenizer.decode(row.tokens[row.answer : -1]) == example.answer
        assert row.tokens[-1] == opened.tokenizer.eos_token_id
    none = encode(last, SHORT, opened, 60)
    assert not none.rows and none.to_json() == {"learned": 0, "shortened": 0, "left_out": {TOO_LONG: 8}}


def _beginning_with(example: TrainingExample, text: str) -> TrainingExample:
    turns = example.sample.conversation.turns
    return replace(example, sample=example.sample.saying((replace(turns[0], content=text), *turns[1:])))


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_invalid_training_is_an_error(base: Path, parts: Parts, tmp_path: Path) -> None:
    some, others = parts.train[:4], parts.validation[:2]
    quick = TrainingSettings(rank=2, epochs=1, max_tokens=200)

    def tried(where: Path = base, first=some, second=others, settings=quick, to="new", **more):  # type: ignore[no-untyped-def]
        return train(where, first, second, SHORT, tmp_path / to, settings, **more)

    with pytest.raises(BadInput, match="Download the model there first"):
        tried(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(BadInput, match="is not a model"):
        tried(tmp_path / "empty")
    with pytest.raises(BadInput, match="no example for validation: 0 given"):
        tried(second=())
    with pytest.raises(BadInput, match="no example for training: 4 given, left out: {'too long"):
        tried(settings=replace(quick, max_tokens=20))
    with pytest.raises(BadInput, match="dialogues are in training and validation"):
        tried(second=some)
    with pytest.raises(BadInput, match="target_modules"):
        tried(settings=replace(quick, target_modules=("nothing",)), to="modules")
    for name, value in {"rank": -1, "dropout": 1.0, "epochs": 0, "learning_rate": 0.0}.items():
        with pytest.raises(BadInput, match=f"finetune: {name} must be"):
            replace(quick, **{name: value})
    tried()
    with pytest.raises(BadInput, match="has a training already"):
        tried()
    with pytest.raises(BadInput, match="with different settings"):
        tried(settings=replace(quick, seed=1), resume=True)
    with pytest.raises(BadInput, match="with different examples"):
        tried(first=parts.train[:5], resume=True)
    assert tried(resume=True).epoch == 0
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("keep", encoding="utf-8")
    with pytest.raises(BadInput, match="files that are not a training"):
        tried(to="full")


def test_invalid_export_is_an_error(base: Path, exported: Path, trained: Trained, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no training in"):
        export(tmp_path, tmp_path / "to")
    with pytest.raises(BadInput, match="is not empty"):
        export(trained.folder, exported)
    with pytest.raises(BadInput, match="is not the 'tiny' that was trained"):
        export(trained.folder, tmp_path / "to", exported)
    (tmp_path / TRAINING).write_text('{"made_from": {}}', encoding="utf-8")
    with pytest.raises(BadInput, match="is not finished"):
        export(tmp_path, tmp_path / "to")
    (tmp_path / TRAINING).write_text("{", encoding="utf-8")
    with pytest.raises(BadInput, match="is damaged"):
        export(tmp_path, tmp_path / "to")


# --- a folder as a chat model -----------------------------------------------------------------------------------------


def _asked(text: str, **more: object) -> Prompt:
    return Prompt((ChatMessage("user", text),), **{"max_tokens": 6, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize("chat", [True, False])
def test_folder_writes_text_and_counts_tokens(tmp_path: Path, chat: bool) -> None:
    name = f"hf:{write_tiny_lm(tmp_path / 'tiny', ['a good day'], vocabulary=270, context=64, chat=chat)}"
    model = open_hf(name)
    reply = wait(model.ask(_asked("hello")))
    assert reply == wait(open_hf(name).ask(_asked("hello"))) and reply.first_token is None
    assert reply.usage.input_tokens > 5 and reply.usage.output_tokens == 6 and reply.model == "hf:tiny"
    drawn = {wait(model.ask(_asked("hello", temperature=1.5, repeat=seed))).text for seed in (1, 2, 3)}
    assert len(drawn) == 3 and wait(model.ask(_asked("hello", temperature=1.5, repeat=1))).text in drawn
    likely = wait(model.ask(_asked("hello", max_tokens=1, top_logprobs=1000))).first_token
    assert likely is not None and sum(likely.values()) == pytest.approx(1, abs=1e-4)
    readable = {text: share for text, share in likely.items() if text.isascii()}
    assert reply.text.startswith(max(readable, key=readable.__getitem__))
    few = wait(model.ask(_asked("hello", max_tokens=1, top_logprobs=3))).first_token
    assert few is not None and len(few) <= 3
    with pytest.raises(CallFailed, match="do not fit into the 64"):
        wait(model.ask(_asked("x" * 70)))
    with pytest.raises(CallFailed, match="JSON Schema"):
        wait(model.ask(_asked("x", schema={})))


def test_dialogue_has_no_control_tokens(base: Path) -> None:
    opened, model = open_folder(base), open_hf(f"hf:{base}")
    mark = opened.tokenizer.eos_token
    long, short = (wait(model.ask(_asked(f"a {text} b"))).usage.input_tokens for text in (mark, "."))
    assert long > short + 2


def test_other_weights_with_the_same_name_are_another_endpoint(tmp_path: Path) -> None:
    one, other = (write_tiny_lm(tmp_path / str(seed) / "m", ["x"], seed=seed, vocabulary=262) for seed in (0, 1))
    assert open_hf(f"hf:{one}").endpoint != open_hf(f"hf:{other}").endpoint
    assert open_hf(f"hf:{one}").name == open_hf(f"hf:{other}").name


def test_invalid_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="Download the model there first"):
        open_hf(f"hf:{tmp_path / 'nothing'}")
    broken = write_tiny_lm(tmp_path / "broken", ["x"], vocabulary=262)
    (broken / "config.json").write_text('{"model_type": "nobody knows"}', encoding="utf-8")
    with pytest.raises(ModelError, match="cannot open"):
        open_hf(f"hf:{broken}")
    damaged = write_tiny_lm(tmp_path / "damaged", ["x"], vocabulary=262)
    (damaged / "model.safetensors").write_bytes(b"no weights")
    with pytest.raises(ModelError, match="cannot open"):
        open_hf(f"hf:{damaged}")


def _with_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: save_file({}, m / "model.safetensors"), "0 tensors"),
        (lambda m: _drop_layer(m / "model.safetensors"), "lacks weights that its config.json needs: model.layers.1"),
        (lambda m: _with_config(m, model_type="mamba"), "lacks weights"),
        (lambda m: _with_config(m, model_type="bert"), "lacks weights"),
        (lambda m: _with_config(m, num_hidden_layers=-1), "num_hidden_layers in config.json is -1"),
        (lambda m: _with_config(m, num_hidden_layers=1_000_000), "num_hidden_layers in config.json is 1000000"),
        (lambda m: _with_config(m, hidden_size=10**7), "cannot open|lacks weights"),
        (lambda m: (m / "config.json").write_text("[1]", encoding="utf-8"), "is not a JSON object"),
    ],
)
def test_folder_whose_weights_do_not_fit_is_refused(
    change: Callable[[Path], object], message: str, base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(base, tmp_path / "odd")
    change(folder)
    with pytest.raises((BadInput, ModelError), match=message) as raised:
        open_hf(f"hf:{folder}")
    assert "\n" not in str(raised.value) and str(folder) in str(raised.value)
    assert "LOAD REPORT" not in "".join(capfd.readouterr())


def _drop_layer(path: Path) -> None:
    save_file({name: each for name, each in load_file(path).items() if "layers.1" not in name}, path)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ 1/0 }}", "chat template.*ZeroDivisionError"),
        ("{% include 'x' %}", "chat template"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "chat template.*recursion"),
        ("x" * (5 << 20), "at most 64 kB are read"),
        ("{% for a in range(99999) %}{% for b in range(99999) %}x{% endfor %}{% endfor %}", "within 12 s|Memory|crash"),
        ("{{ 'x' * 100000000000 }}", "MemoryError"),
        ("{{ 'x ' * 100000 }}", "tokens for the prompt"),
    ],
)
def test_faulty_chat_template_is_refused_before_the_model_is_used(
    template: str, message: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "range" in template:  # takes hours
        monkeypatch.setattr(hf_trial, "TRIAL_SECONDS", 12.0)
    folder = shutil.copytree(base, tmp_path / "odd")
    (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
    with pytest.raises(ModelError, match=message) as raised:
        open_hf(f"hf:{folder}")
    assert "\n" not in str(raised.value)


def test_faulty_tokenizer_is_refused(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "odd")
    path = folder / "tokenizer_config.json"
    path.write_text(
        json.dumps(json.loads(path.read_text(encoding="utf-8")) | {"model_max_length": "x"}), encoding="utf-8"
    )
    with pytest.raises(ModelError, match="cannot open"):
        open_hf(f"hf:{folder}")


def test_token_outside_the_vocabulary_of_the_model_is_refused(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "odd")
    path = folder / "tokenizer.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    content["model"]["vocab"]["x"] = 90_000
    path.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(CallFailed, match="writes token 90000, but the model has only"):
        wait(open_hf(f"hf:{folder}").ask(_asked("x")))


def test_template_that_fails_on_some_prompts_names_the_fault(base: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(base, tmp_path / "odd")
    (folder / "chat_template.jinja").write_text(
        "{% if messages[0].content == 'x' %}{{ 1/0 }}{% endif %}hello", encoding="utf-8"
    )
    with pytest.raises(CallFailed, match="chat template.*ZeroDivisionError"):
        wait(open_hf(f"hf:{folder}").ask(_asked("x")))


def test_surrogate_halves_are_replaced_in_examples(base: Path) -> None:
    conversation, assessment = planted(1)[0]
    [example] = examples_of([(conversation, replace(assessment, comment="odd \ud800"))], SHORT)
    assert "odd \ufffd" in example.answer
    assert encode([example], SHORT, open_folder(base), 240).rows
    turns = (Turn("user", "odd \ud800"), *conversation.turns[1:])
    [example] = examples_of([(replace(conversation, turns=turns), assessment)], SHORT)
    assert encode([example], SHORT, open_folder(base), 240).rows


def test_full_disk_while_a_model_is_written_leaves_no_folder(
    trained: Trained, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import PreTrainedTokenizerBase

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(PreTrainedTokenizerBase, "save_pretrained", fail)
    with pytest.raises(BadInput, match=r"cannot write .*No space left on device.*--resume"):
        export(trained.folder, tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_checkpoint_that_pytorch_refuses_is_one_line(
    base: Path, parts: Parts, interrupts: None, tmp_path: Path
) -> None:
    quick = replace(ALL_WEIGHTS, epochs=2)
    with pytest.raises(KeyboardInterrupt):
        train(base, parts.train[:8], parts.validation[:4], SHORT, tmp_path, quick, on_step=_interrupt_at(3))
    [path] = tmp_path.glob("checkpoint-*/optimizer.pt")
    path.write_bytes(pickle.dumps(Path("x"), protocol=2))
    with pytest.raises(BadInput, match="cannot resume from the last checkpoint") as raised:
        train(base, parts.train[:8], parts.validation[:4], SHORT, tmp_path, quick, resume=True)
    assert "\n" not in str(raised.value)


def test_missing_extra_names_its_install_command(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = shutil.copytree(base, tmp_path / "never-opened-before")
    (copied / "generation_config.json").write_text('{"_of": "this test"}', encoding="utf-8")
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(MissingExtra, match=r"pip install .*\[finetune\]"):
        open_hf(f"hf:{copied}")


# --- comparing --------------------------------------------------------------------------------------------------------


def test_evaluation_counts() -> None:
    def of(place: int, score: int, *types: str, comment: str = "it is a rather good reply") -> IssueAnnotation:
        return IssueAnnotation(Target(f"d{place}", 1), tuple(Issue(t, "") for t in types), score, comment, "x")

    reference = [of(0, 5), of(1, 1, "Coherence"), of(2, 3, "Engagement"), of(3, 2, "Coherence", "Fluency"), of(4, 4)]
    found = [
        of(0, 5), of(1, 1, "Coherence", "Other"), of(2, 3), Unannotated(Target("d3", 1), "no verdict", "no score"),
        of(9, 1),
    ]  # fmt: skip
    rows = {(row["statistic"], row["of"]): row for row in evaluate(found, reference)}
    assert rows["spearman", "scores"]["value"] == pytest.approx(1) and rows["pearson", "scores"]["turns"] == 3
    assert rows["bleu4", "comments"]["value"] == pytest.approx(100)
    unread = {of: row["value"] for (name, of), row in rows.items() if name == "unread"}
    assert unread == {"any reason": 0.4, "no score": 0.2, "not asked": 0.2}
    shares = {of: row["value"] for (name, of), row in rows.items() if name == "types_equal"}
    assert shares == {
        "turns with issues, all kinds": 0, "all turns, all kinds": 0.2,
        "turns with issues, without Engagement": 0, "all turns, without Engagement": 0.4,
    }  # fmt: skip
    covered = {of: row["value"] for (name, of), row in rows.items() if name == "types_covered"}
    assert covered["turns with issues, all kinds"] == pytest.approx(1 / 3)
    assert covered["turns with issues, without Engagement"] == 0.5
    row = rows["types_covered", "all turns, all kinds"]
    assert row["low"] <= row["value"] <= row["high"] and json.loads(json.dumps(row)) == row
    with pytest.raises(BadInput, match="no turn in common: 1 assessed turns"):
        evaluate(found[-1:], reference)
    nothing = evaluate([Unannotated(each.target, "timeout") for each in reference], reference)
    assert [row["value"] for row in nothing[:3]] == [None] * 3


def test_command_trains_evaluates_and_exports(working_folder: Path, base: Path) -> None:
    from commands import accord_json, invoke, refused, write

    from accord.store import IssueAnnotations, Store

    signature = "issues|model:large|taxonomy:soda-eval|via:recorded"
    pairs = planted(40)
    store = Store("sqlite:///accord.db")
    store.add_conversations({conversation.id: conversation for conversation, _ in pairs}.values())
    IssueAnnotations(store).add(replace(assessment, signature=signature) for _, assessment in pairs)
    store.close()
    write("accord.yaml", "sources: {issues: {by: recorded, model: large}}\n")
    options = "--rank 0 --learning-rate 0.006 --max-tokens 240 --batch 8 --micro-batch 8 --test 2"
    taught = ["finetune", "issues", "--base", str(base), *options.split()]
    found = accord_json(*taught, "--epochs", "2", "--shots", "1")
    assert {row["system"] for row in found["rows"]} == {"fine-tuned", "base, 1 examples"}
    assert len(found["validation"]) == 2
    assert "has a model already" in refused(*taught)
    own = f"models: {{finder: {{model: 'hf:{found['model']}'}}}}\n"
    write("accord.yaml", own)
    assessed = invoke("judge", "--source", "issues", "--all", "--limit", "1", code=None)
    assert assessed.exit_code in {0, 5} and "1 dialogues, 2 turns" in assessed.stdout, assessed.output
    write("accord.yaml", f"{own}sources: {{issues: {{taxonomy: abc-eval}}}}\n")
    assert "another version of the taxonomy 'soda-eval'" in refused("judge", "--source", "issues", "--all")
    write("accord.yaml", "sources: {issues: {by: recorded, model: nobody}}\n")
    assert "0 sets of annotations" in refused(*taught, "--out", "x")
