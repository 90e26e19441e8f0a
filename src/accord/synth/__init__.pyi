from .dialogues import Made as Made, Outcome as Outcome, making as making
from .library import Library as Library
from .planning import Planned as Planned, planned as planned
from .prompting import PROMPTS as PROMPTS
from .reading import END as END, Lost as Lost, Utterance as Utterance, read_dialogue as read_dialogue
from .reading import read_query as read_query, read_utterance as read_utterance
from .settings import HOWS as HOWS, How as How, SynthSettings as SynthSettings
from .topics import read_personas as read_personas, read_topics as read_topics
from .unlike import Giveaway as Giveaway, Unlike as Unlike, unlike as unlike
