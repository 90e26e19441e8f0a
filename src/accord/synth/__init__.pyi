from .dialogues import generate_conversations as generate_conversations, GenerationResult as GenerationResult
from .dialogues import SynthesisResult as SynthesisResult
from .document_search import DocumentIndex as DocumentIndex
from .prompting import SYNTH_METHODS as SYNTH_METHODS, SynthSettings as SynthSettings
from .utterance_parser import GenerationFailure as GenerationFailure
