from .contracts import check_batch_scorer as check_batch_scorer, check_head as check_head, check_metric as check_metric
from .contracts import check_selection_policy as check_selection_policy, check_source as check_source
from .issue_finder import dialogues as dialogues, FORGED as FORGED, PERFECT as PERFECT, ratings as ratings
from .issue_finder import SIGNS as SIGNS, verdict as verdict, written as written
from .misbehaving_endpoint import answer_any as answer_any, fault as fault, FAULTS as FAULTS, Misbehaving as Misbehaving
from .planted_chats import Author as Author, conversations as conversations, IDEAS as IDEAS, INFORMATIVE as INFORMATIVE
from .planted_chats import write_files as write_files
from .postgres import ThrowAwayPostgres as ThrowAwayPostgres
from .server import Batches as Batches, ChatServer as ChatServer, completion as completion, decisions as decisions
from .server import Respond as Respond, spoken as spoken, tokens_in as tokens_in, Wire as Wire
from .synthetic_corpus import MECHANISMS as MECHANISMS, Planted as Planted, planted as planted
from .synthetic_corpus import planted_thumbs as planted_thumbs, planted_turns as planted_turns
from .synthetic_corpus import planted_utility as planted_utility, PlantedUtility as PlantedUtility
from .synthetic_corpus import rated_chats as rated_chats
