from .data import examples_of as examples_of, Parts as Parts, split_by_dialogue as split_by_dialogue
from .evaluation import evaluate as evaluate, MetricLine as MetricLine, predict as predict
from .training import export as export, train as train, TrainingSettings as TrainingSettings
