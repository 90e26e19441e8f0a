from .contracts import check_batch_scorer as check_batch_scorer, check_head as check_head, check_metric as check_metric
from .contracts import check_selection_policy as check_selection_policy, check_source as check_source
from .corpus import MECHANISMS as MECHANISMS, Planted as Planted, PlantedUtility as PlantedUtility, planted as planted
from .corpus import planted_thumbs as planted_thumbs, planted_turns as planted_turns, planted_utility as planted_utility
from .corpus import rated_chats as rated_chats
from .issue_finder import FORGED as FORGED, PERFECT as PERFECT, SIGNS as SIGNS, dialogues as dialogues
from .issue_finder import ratings as ratings, verdict as verdict, written as written
from .planted_chats import Author as Author, IDEAS as IDEAS, INFORMATIVE as INFORMATIVE, conversations as conversations
from .planted_chats import write_files as write_files
from .postgres import ThrowAwayPostgres as ThrowAwayPostgres
from .server import Batches as Batches, ChatServer as ChatServer, Respond as Respond, Wire as Wire
from .server import completion as completion, decisions as decisions, spoken as spoken, tokens_in as tokens_in
from .wires import FAULTS as FAULTS, Misbehaving as Misbehaving, answer_any as answer_any, fault as fault
