from .catalogue import CATALOGUE as CATALOGUE, is_pulled as is_pulled, is_ready as is_ready, list_models as list_models
from .catalogue import models_folder as models_folder, opened as opened, Published as Published
from .chat import EmbeddedChat as EmbeddedChat
from .language_model import LanguageModel as LanguageModel, open_language_model as open_language_model
from .likelihood import EmbeddedLikelihood as EmbeddedLikelihood
from .llama import Llama as Llama, Prefix as Prefix, Shape as Shape
from .minilm import open_sentence_embedder as open_sentence_embedder
