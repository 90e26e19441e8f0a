"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log."""

from accord.live.following import Follower
from accord.live.ingest import Intake, RowLog, opened
from accord.live.messages import Said, said_from
from accord.live.reward import Reward
from accord.live.scorer import LiveScorer, Taken, live_evaluator, live_metrics
from accord.live.unfolding import Unfolding
from accord.live.watching.alarms import Alarm, alarms, looks
from accord.live.watching.day import KEPT, UNSURE, Day, DayMean
from accord.live.watching.rounds import NotTold, Rounds, post
from accord.live.watching.watch import Watch, report, see_to, tell

__all__ = [
    "Alarm",
    "Day",
    "DayMean",
    "Follower",
    "Intake",
    "KEPT",
    "LiveScorer",
    "NotTold",
    "Reward",
    "Rounds",
    "RowLog",
    "Said",
    "Taken",
    "UNSURE",
    "Unfolding",
    "Watch",
    "alarms",
    "live_evaluator",
    "live_metrics",
    "looks",
    "opened",
    "post",
    "report",
    "said_from",
    "see_to",
    "tell",
]
