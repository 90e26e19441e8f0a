"""Synthetic conversations: dialogues that nobody held, made in five ways (LLM-RUBRIC, appendix F), and told apart."""

from accord.synth.dialogues import Made, Outcome, making
from accord.synth.library import Library
from accord.synth.planning import Planned, planned
from accord.synth.prompting import PROMPTS
from accord.synth.reading import END, Lost, Utterance, read_dialogue, read_query, read_utterance
from accord.synth.settings import HOWS, How, SynthSettings
from accord.synth.topics import read_personas, read_topics
from accord.synth.unlike import Giveaway, Unlike, unlike

__all__ = [
    "END",
    "Giveaway",
    "HOWS",
    "How",
    "Library",
    "Lost",
    "Made",
    "Outcome",
    "PROMPTS",
    "Planned",
    "SynthSettings",
    "Unlike",
    "Utterance",
    "making",
    "planned",
    "read_dialogue",
    "read_personas",
    "read_query",
    "read_topics",
    "read_utterance",
    "unlike",
]
