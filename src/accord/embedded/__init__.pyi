from .catalogue import CATALOGUE as CATALOGUE, CatalogueModel as CatalogueModel, is_pulled as is_pulled
from .catalogue import is_ready as is_ready, list_models as list_models, models_folder as models_folder
from .catalogue import read_model as read_model
from .chat import EmbeddedChat as EmbeddedChat, EmbeddedLikelihood as EmbeddedLikelihood
from .language_model import LanguageModel as LanguageModel, open_language_model as open_language_model
from .llama import Llama as Llama, LlamaShape as LlamaShape, Prefix as Prefix
from .minilm import open_sentence_embedder as open_sentence_embedder
