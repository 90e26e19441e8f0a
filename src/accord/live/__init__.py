"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log."""

from accord.live.following import Follower
from accord.live.intake import Intake, RowLog
from accord.live.opening import opened
from accord.live.said import Said, said_from
from accord.live.scorer import LiveScorer, Taken, live_evaluator, live_metrics
from accord.live.unfolding import Unfolding

__all__ = [
    "Follower",
    "Intake",
    "LiveScorer",
    "RowLog",
    "Said",
    "Taken",
    "Unfolding",
    "live_evaluator",
    "live_metrics",
    "opened",
    "said_from",
]
