from .catalogue import CATALOGUE as CATALOGUE, is_ready as is_ready, list_models as list_models
from .minilm import open_sentence_embedder as open_sentence_embedder
