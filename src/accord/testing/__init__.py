"""What Accord tests itself with, for your plug-ins and pipelines too: contracts, planted corpora, a loopback server."""

from accord.testing.batches import Batches
from accord.testing.contracts import check_evaluator, check_metric
from accord.testing.corpus import Planted, planted
from accord.testing.server import ChatServer, Respond, Wire, completion
from accord.testing.wires import FAULTS, Misbehaving, answer_any, fault

__all__ = [
    "FAULTS",
    "Batches",
    "ChatServer",
    "Misbehaving",
    "Planted",
    "Respond",
    "Wire",
    "answer_any",
    "check_evaluator",
    "check_metric",
    "completion",
    "fault",
    "planted",
]
