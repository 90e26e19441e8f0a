from .catalogue import CATALOGUE as CATALOGUE, is_ready as is_ready, list_models as list_models
