"""Fine-tuning of encoder-decoder models: a tiny T5 with random weights, whose vocabulary has no braces, writes JSON."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
from test_finetune import SHORT, planted
from tiny_models import write_tiny_t5

from accord.embedded.huggingface import OTHER_BRACES, open_folder, open_hf, prompt_tokens, write
from accord.finetune import TrainingSettings, examples_of, export, predict, split_by_dialogue, train
from accord.finetune.data import IGNORED, TrainingExample, encode, encoder_batch_of
from accord.models import (
    ChatMessage,
    Prompt,
    wait,
)
from accord.models.requests.flow import run_flow
from accord.values import IssueAnnotation

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(find_spec, ("torch", "transformers", "peft", "sacrebleu"))),
        reason="accord[finetune,references] is not installed",
    ),
]
SETTINGS = TrainingSettings(rank=0, learning_rate=6e-3, epochs=6, batch=4, accumulate=1, max_tokens=400)


@pytest.fixture(scope="module")
def examples() -> list[TrainingExample]:
    import torch

    torch.set_num_threads(1)
    return examples_of(planted(150), SHORT)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, examples: list[TrainingExample]) -> Path:
    texts = [text for example in examples for text in (example.prompt, example.answer)]
    return write_tiny_t5(tmp_path_factory.mktemp("base") / "tiny-t5", texts, vocabulary=400, width=32)


def test_prompt_is_the_input_and_the_answer_the_labels(base: Path, examples: list[TrainingExample]) -> None:
    opened = open_folder(base)
    assert opened.has_encoder and "{" not in opened.tokenizer.get_vocab()
    rows = encode(examples[:3], SHORT, opened, 400).rows
    assert len(rows) == 3
    batch = encoder_batch_of(rows)
    for row, example, inputs, mask, labels in zip(
        rows, examples, *(batch[name].tolist() for name in ("input_ids", "attention_mask", "labels")), strict=False
    ):
        prompt, answer = list(row.tokens[: row.answer]), list(row.tokens[row.answer :])
        assert inputs[: sum(mask)] == prompt and prompt[-1] == opened.end == answer[-1]
        assert [token for token in labels if token != IGNORED] == answer
        assert opened.answer_text(answer) == example.answer, "braces survive the vocabulary"
        assert OTHER_BRACES[0] in opened.tokenizer.decode(answer)


def test_written_tokens_are_those_of_transformers(base: Path) -> None:
    import torch

    opened = open_folder(base)
    prompt = prompt_tokens(opened.tokenizer, [ChatMessage("user", "nice day, i like tea")])
    written, first = write(opened, prompt, 12, 0.0, 0)
    with torch.inference_mode():
        expected = opened.model.generate(torch.tensor([[*prompt, opened.end]]), max_new_tokens=12, do_sample=False)
    assert written == [token for token in expected[0].tolist()[1:] if token not in opened.ends]
    assert first.shape == (opened.vocabulary,)


def test_tiny_t5_learns_and_predicts_verdicts(base: Path, examples: list[TrainingExample], tmp_path: Path) -> None:
    parts = split_by_dialogue(examples, (0.7, 0.15, 0.15))
    trained = train(base, parts.train, parts.validation, SHORT, tmp_path / "training", SETTINGS)
    assert trained.validation[-1] < 0.1 * trained.validation[0]
    model = open_hf(f"hf:{export(trained.folder, tmp_path / 'model')}")
    scores = {example.target: example.score for example in parts.test}
    found = run_flow(predict([example.sample for example in parts.test], SHORT, model.name), model)
    read = [each for each in found if isinstance(each, IssueAnnotation)]
    assert len(read) > 0.9 * len(found)
    assert sum(each.score == scores[each.target] for each in read) > 0.7 * len(found)
    assert any(issue.span for each in read for issue in each.issues), "quotes of the reply"


def test_lora_adapts_an_encoder_decoder_model(base: Path, examples: list[TrainingExample], tmp_path: Path) -> None:
    parts = split_by_dialogue(examples[:60], (0.7, 0.15, 0.15))
    settings = TrainingSettings(rank=4, epochs=2, batch=4, accumulate=1, max_tokens=400, learning_rate=2e-2)
    trained = train(base, parts.train, parts.validation, SHORT, tmp_path / "training", settings)
    assert trained.validation[1] < trained.validation[0]
    model = open_hf(f"hf:{export(trained.folder, tmp_path / 'model')}")
    reply = wait(model.ask(Prompt((ChatMessage("user", "nice day"),), 5, top_logprobs=3)))
    assert reply.first_token is not None and 0 < sum(reply.first_token.values()) <= 1
