"""Fine-tuning: a small model of your own learns to find issues and to rate (SODA-EVAL, section 5).

Assessments become examples, dialogues are dealt out to three parts, a causal language model learns from the first,
the second chooses the epoch, and the third says how good it became.
"""

from accord.finetune.evaluation import evaluate
from accord.finetune.examples import Example, examples_of
from accord.finetune.export import export
from accord.finetune.predicting import predict
from accord.finetune.settings import Settings
from accord.finetune.splitting import Parts, split_by_dialogue
from accord.finetune.training import Progress, Trained, train

__all__ = [
    "Example",
    "Parts",
    "Progress",
    "Settings",
    "Trained",
    "evaluate",
    "examples_of",
    "export",
    "predict",
    "split_by_dialogue",
    "train",
]
