"""What Accord tests itself with, for your plug-ins and pipelines too: contracts, planted corpora, a loopback server."""

from accord.testing.contracts import check_batch_scorer, check_head, check_metric, check_selection_policy, check_source
from accord.testing.corpus import (
    MECHANISMS,
    Planted,
    PlantedUtility,
    planted,
    planted_thumbs,
    planted_turns,
    planted_utility,
    rated_chats,
)
from accord.testing.issue_finder import FORGED, PERFECT, SIGNS, dialogues, ratings, verdict, written
from accord.testing.planted_chats import IDEAS, INFORMATIVE, Author, conversations, write_files
from accord.testing.postgres import ThrowAwayPostgres
from accord.testing.server import Batches, ChatServer, Respond, Wire, completion, decisions, spoken, tokens_in
from accord.testing.wires import FAULTS, Misbehaving, answer_any, fault

__all__ = [
    "Author",
    "Batches",
    "ChatServer",
    "FAULTS",
    "FORGED",
    "IDEAS",
    "INFORMATIVE",
    "MECHANISMS",
    "Misbehaving",
    "PERFECT",
    "Planted",
    "PlantedUtility",
    "Respond",
    "SIGNS",
    "ThrowAwayPostgres",
    "Wire",
    "answer_any",
    "check_batch_scorer",
    "check_head",
    "check_metric",
    "check_selection_policy",
    "check_source",
    "completion",
    "conversations",
    "decisions",
    "dialogues",
    "fault",
    "planted",
    "planted_thumbs",
    "planted_turns",
    "planted_utility",
    "rated_chats",
    "ratings",
    "spoken",
    "tokens_in",
    "verdict",
    "write_files",
    "written",
]
