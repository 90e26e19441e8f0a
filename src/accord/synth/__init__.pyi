from .dialogues import ConversationPlan as ConversationPlan, generate_conversations as generate_conversations
from .dialogues import GenerationResult as GenerationResult, plan_conversations as plan_conversations
from .dialogues import SynthesisResult as SynthesisResult
from .document_search import DocumentIndex as DocumentIndex
from .prompting import PROMPTS as PROMPTS, SYNTH_METHODS as SYNTH_METHODS, SynthMethod as SynthMethod
from .prompting import SynthSettings as SynthSettings
from .topics import read_personas as read_personas, read_topics as read_topics
from .two_sample_test import DiscriminativeFeature as DiscriminativeFeature, two_sample_test as two_sample_test
from .two_sample_test import TwoSampleResult as TwoSampleResult
from .utterance_parser import END as END, GenerationFailure as GenerationFailure, read_dialogue as read_dialogue
from .utterance_parser import read_query as read_query, read_utterance as read_utterance, Utterance as Utterance
