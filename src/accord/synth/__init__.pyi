from .dialogues import Made as Made, making as making, Outcome as Outcome
from .document_search import Library as Library
from .planning import Planned as Planned, planned as planned
from .prompting import PROMPTS as PROMPTS
from .settings import How as How, HOWS as HOWS, SynthSettings as SynthSettings
from .topics import read_personas as read_personas, read_topics as read_topics
from .two_sample_test import Giveaway as Giveaway, Unlike as Unlike, unlike as unlike
from .utterance_parser import END as END, Lost as Lost, read_dialogue as read_dialogue, read_query as read_query
from .utterance_parser import read_utterance as read_utterance, Utterance as Utterance
