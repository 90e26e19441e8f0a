from .data import examples_of as examples_of, Parts as Parts, split_by_dialogue as split_by_dialogue
from .evaluation import evaluate as evaluate, Line as Line, predict as predict
from .training import export as export, Settings as Settings, train as train
