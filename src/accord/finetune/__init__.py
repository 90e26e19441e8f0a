"""Fine-tuning: a small model of your own learns to find issues and to rate."""

from accord.finetune.data import Parts, examples_of, split_by_dialogue
from accord.finetune.evaluation import Line, evaluate, predict
from accord.finetune.training import Settings, export, train

__all__ = [
    "Parts",
    "Settings",
    "Line",
    "evaluate",
    "examples_of",
    "export",
    "predict",
    "split_by_dialogue",
    "train",
]
