"""TRL: GRPO trains a small model with random weights on the rewards of an evaluator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from live_evaluator import learned, support_chats

from accord import Reward, load_evaluator

PYTHON = os.environ.get("ACCORD_TEST_TRL") or (sys.executable if find_spec("trl") else None)
"""Python with TRL."""
WORDS = [
    "[PAD]",
    "[EOS]",
    "where",
    "is",
    "my",
    "order",
    "?",
    "it",
    "arrives",
    "on",
    "Monday",
    "within",
    "three",
    "days",
    "because",
    "we",
    "are",
    "sorry",
]
SCRIPT = f"""
import json
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from accord import Reward, load_evaluator

words = {WORDS!r}
tokenizer = Tokenizer(models.WordLevel({{word: place for place, word in enumerate(words)}}, unk_token="[EOS]"))
tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", eos_token="[EOS]")
model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
                                     num_attention_heads=2, pad_token_id=0, eos_token_id=1))
before = model.lm_head.weight.detach().clone()


class Recorded(Reward):
    seen = []

    def __call__(self, prompts, completions, documents=None, **columns):
        values = super().__call__(prompts, completions, documents, **columns)
        self.seen.append([prompts, completions, documents, values])
        return values


args = GRPOConfig(output_dir="trained", max_steps=2, per_device_train_batch_size=8, num_generations=4, learning_rate=0.1,
                  max_completion_length=12, report_to=[], logging_steps=1, save_strategy="no", use_cpu=True, bf16=False)
rows = {{"prompt": ["where is my order ?"] * 4, "documents": [["Orders arrive on Monday."]] * 4}}
reward = Recorded(load_evaluator("evaluators/default"))
trainer = GRPOTrainer(model=model, reward_funcs=reward, args=args, train_dataset=Dataset.from_dict(rows), processing_class=tokenizer)
trainer.train()
logged = [float(row["rewards/accord_reward/mean"]) for row in trainer.state.log_history if "reward" in row]
print(json.dumps({{"seen": Recorded.seen, "logged": logged, "moved": float((model.lm_head.weight - before).abs().max())}}))
"""


@pytest.mark.slow
@pytest.mark.skipif(PYTHON is None, reason="trl is not installed, and ACCORD_TEST_TRL names no Python with it")
def test_grpo_trains_on_the_scores_of_an_evaluator(tmp_path: Path) -> None:
    learned(support_chats()[:10], ["words"]).save(tmp_path / "evaluators" / "default")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1"}
    done = subprocess.run(
        [str(PYTHON), "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    reward = Reward(load_evaluator(tmp_path / "evaluators" / "default"))
    steps = found["seen"]
    assert len(steps) == 2 and all(len(completions) == 8 for _, completions, _, _ in steps)
    for (prompts, completions, documents, values), logged in zip(steps, found["logged"], strict=True):
        assert values == pytest.approx(reward(prompts, completions, documents))
        assert documents == [["Orders arrive on Monday."]] * 8 and len(set(values)) > 1
        assert sum(values) / 8 == pytest.approx(logged, abs=1e-3)
    assert found["moved"] > 0.01, "the advantages of the rewards change the weights"
