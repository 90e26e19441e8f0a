"""Tiny language models with random weights, for tests without a download."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from accord.edges import MissingExtra
from accord.embedded.llama import LlamaShape

TINY = LlamaShape(layers=2, heads=4, key_heads=2, width=32, head_width=8, context=512, rope_base=10_000.0, epsilon=1e-5)
FEED = 48
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "Be brief<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
    "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def vocabulary() -> list[str]:
    """Return three control tokens and the 256 bytes in byte-level spelling."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    spelt = {byte: chr(byte) for byte in printable}
    spelt |= {byte: chr(256 + i) for i, byte in enumerate(b for b in range(256) if b not in spelt)}
    return [*CONTROL, *(spelt[byte] for byte in range(256)), "Ġt"]


def write_tiny_gguf(path: str | Path, seed: int = 0, architecture: str = "llama") -> Path:
    """Write a Llama model with random weights as a GGUF file; returns the path.

    Raises:
        MissingExtra: `accord[embedded]` is not installed.
    """
    try:
        import gguf
    except ImportError:
        raise MissingExtra("writing a GGUF file", "embedded") from None
    writer = gguf.GGUFWriter(str(path), architecture)
    writer.add_context_length(TINY.context)
    writer.add_embedding_length(TINY.width)
    writer.add_block_count(TINY.layers)
    writer.add_feed_forward_length(FEED)
    writer.add_head_count(TINY.heads)
    writer.add_head_count_kv(TINY.key_heads)
    writer.add_layer_norm_rms_eps(TINY.epsilon)
    writer.add_rope_dimension_count(TINY.head_width)
    writer.add_rope_freq_base(TINY.rope_base)
    tokens = vocabulary()
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if token in CONTROL else 1 for token in tokens])
    writer.add_token_merges(["Ġ t"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_chat_template(TEMPLATE)
    for name, array in tiny_tensors(seed).items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return Path(path)


def tiny_tensors(seed: int = 0) -> dict[str, np.ndarray]:
    """Return random float32 weights with the names of a GGUF file."""
    rng = np.random.default_rng(seed)

    def drawn(*shape: int) -> np.ndarray:
        return rng.normal(scale=shape[-1] ** -0.5, size=shape).astype(np.float32)

    keys = TINY.key_heads * TINY.head_width
    tensors = {"token_embd.weight": drawn(len(vocabulary()), TINY.width)}
    for layer in range(TINY.layers):
        shapes = {
            "attn_q": (TINY.width, TINY.width),
            "attn_k": (keys, TINY.width),
            "attn_v": (keys, TINY.width),
            "attn_output": (TINY.width, TINY.width),
            "ffn_gate": (FEED, TINY.width),
            "ffn_up": (FEED, TINY.width),
            "ffn_down": (TINY.width, FEED),
        }
        tensors |= {f"blk.{layer}.{name}.weight": drawn(*shape) for name, shape in shapes.items()}
        norms = ("attn_norm", "ffn_norm")
        tensors |= {f"blk.{layer}.{name}.weight": 1 + 0.1 * drawn(TINY.width) for name in norms}
    return {**tensors, "output_norm.weight": np.ones(TINY.width, dtype=np.float32)}


START, END, PAD = "<|start|>", "<|end|>", "<|pad|>"
LM_TEMPLATE = (
    "{% for message in messages %}{{ '<|start|>' + message['role'] + '\n' + message['content'] + '<|end|>' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>assistant\n' }}{% endif %}"
)
LAYERS, HEADS = 2, 4


def write_tiny_t5(
    folder: str | Path, texts: Iterable[str], *, vocabulary: int = 500, width: int = 48, seed: int = 0
) -> Path:
    """Write a T5 model with random weights; like T5's, its vocabulary has no braces and ends each text with `</s>`.

    Raises:
        MissingExtra: `accord[finetune]` is not installed.
    """
    try:
        import torch
        from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration
    except ImportError:
        raise MissingExtra("writing a Hugging Face folder", "finetune") from None
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    from accord.embedded.huggingface import quiet_transformers

    spelling = Tokenizer(models.Unigram())
    spelling.pre_tokenizer, spelling.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    learned = trainers.UnigramTrainer(
        vocab_size=vocabulary, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>",
        initial_alphabet=["«", "»"], show_progress=False,
    )  # fmt: skip
    spelling.train_from_iterator((text.replace("{", " ").replace("}", " ") for text in texts), learned)
    spelling.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=spelling, eos_token="</s>", pad_token="<pad>", unk_token="<unk>"
    )
    shape = T5Config(
        vocab_size=len(tokenizer), d_model=width, d_kv=width // HEADS, d_ff=2 * width, num_layers=LAYERS,
        num_heads=HEADS, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, dropout_rate=0.0,
        feed_forward_proj="gated-gelu",
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(seed)
        T5ForConditionalGeneration(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)


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
    """Write a Llama model with random weights and a byte-level vocabulary learned from texts.

    Args:
        folder: Folder of the model.
        texts: Texts of the vocabulary; other texts are spelled byte by byte.
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

    from accord.embedded.huggingface import quiet_transformers

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
    tokenizer.chat_template = LM_TEMPLATE if chat else None
    shape = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=width, intermediate_size=2 * width, num_hidden_layers=LAYERS,
        num_attention_heads=HEADS, num_key_value_heads=HEADS, max_position_embeddings=context,
        tie_word_embeddings=True, bos_token_id=None, eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]), quiet_transformers():
        torch.manual_seed(seed)
        LlamaForCausalLM(shape).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return Path(folder)
