from .data import Parts as Parts, examples_of as examples_of, split_by_dialogue as split_by_dialogue
from .evaluation import Line as Line, evaluate as evaluate, predict as predict
from .training import Settings as Settings, export as export, train as train
