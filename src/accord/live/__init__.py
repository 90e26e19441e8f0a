"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log."""

from accord.live.following import Follower
from accord.live.ingest import Ingestor, RowLog, opened
from accord.live.messages import Message, message_from
from accord.live.reward import Reward
from accord.live.scorer import IngestResult, LiveScorer, live_metrics
from accord.live.unfolding import HistoryDeduplicator
from accord.live.watching.alarms import Alarm, alarms, looks
from accord.live.watching.day import KEPT, UNSURE, Day, DayMean
from accord.live.watching.scheduler import NotTold, Scheduler, post
from accord.live.watching.watch import Watch, report, see_to, tell

__all__ = [
    "Alarm",
    "Day",
    "DayMean",
    "Follower",
    "HistoryDeduplicator",
    "IngestResult",
    "Ingestor",
    "KEPT",
    "LiveScorer",
    "Message",
    "NotTold",
    "Reward",
    "RowLog",
    "Scheduler",
    "UNSURE",
    "Watch",
    "alarms",
    "live_metrics",
    "looks",
    "message_from",
    "opened",
    "post",
    "report",
    "see_to",
    "tell",
]
