"""A causal language model of some ten thousand random weights as a Hugging Face folder: made here, never fetched."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from accord.errors import MissingExtra

START, END, PAD = "<|start|>", "<|end|>", "<|pad|>"
TEMPLATE = (
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)
LAYERS, HEADS = 2, 4


def write_tiny_lm(
    folder: str | Path,
    texts: Iterable[str],
    *,
    vocabulary: int = 500,
    width: int = 48,
    context: int = 2048,
    chat: bool = True,
    seed: int = 0,
) -> Path:
    """Write a Llama-shaped model with random weights and a byte-level vocabulary learned from some texts.

    Args:
        folder: Where it is written.
        texts: What the vocabulary is learned from; every other text can be spelt too, byte by byte.
        vocabulary: Tokens at the most, at least 260.
        width: Numbers a position has in each layer; a multiple of four.
        context: Tokens that it reads.
        chat: Whether it has a chat template.
        seed: Fixes the weights.

    Returns:
        The folder.

    Raises:
        MissingExtra: `accord[finetune]` is not installed.
    """
    try:
        import torch
        from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
    except ImportError:
        raise MissingExtra("writing a Hugging Face folder", "finetune") from None
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from accord.llm.hf_folder import without_bars

    spelling = Tokenizer(models.BPE())
    spelling.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    spelling.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    learned = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=[START, END, PAD], initial_alphabet=alphabet, show_progress=False
    )
    spelling.train_from_iterator(texts, learned)
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=spelling, eos_token=END, pad_token=PAD)
    tokenizer.add_special_tokens({"additional_special_tokens": [START]})
    tokenizer.chat_template = TEMPLATE if chat else None
    shape = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=context,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), without_bars():
        torch.manual_seed(seed)
        LlamaForCausalLM(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)
