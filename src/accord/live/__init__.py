"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log.

The service's names are imported when they are first used: FastAPI and uvicorn are an extra (`accord[serve]`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from accord.live.following import Follower
from accord.live.ingest import Ingestor, RowLog, opened
from accord.live.messages import HistoryDeduplicator, Message, message_from
from accord.live.reward import Reward
from accord.live.scorer import IngestResult, LiveScorer, check_live
from accord.live.service.middleware import (
    SECONDS,
    App,
    Guard,
    Guesses,
    Refused,
    check_installed,
    checked_binding,
    is_loopback,
    together,
)
from accord.live.service.schemas import media_type, message_schema
from accord.live.succession import Succession, version_of
from accord.live.watching.alarms import Alarm, alarms, looks
from accord.live.watching.day import KEPT, UNSURE, Day, DayMean
from accord.live.watching.scheduler import NotTold, Scheduler, post
from accord.live.watching.watch import DayRow, Watch, WatchReport, report, see_to, tell

if TYPE_CHECKING:
    from accord.live.service.app import Service, make_app
    from accord.live.service.server import checked_proxies, impatient, serve
    from accord.live.service.turns import Batcher, Busy, Late
    from accord.live.service.workers import Opening, opened_service, serve_workers

_LATER = {
    "Batcher": "turns",
    "Busy": "turns",
    "Late": "turns",
    "Opening": "workers",
    "Service": "app",
    "checked_proxies": "server",
    "impatient": "server",
    "make_app": "app",
    "opened_service": "workers",
    "serve": "server",
    "serve_workers": "workers",
}
"""Names that need the extra, and the file of the service that has them."""

__all__ = [
    "Alarm",
    "App",
    "Batcher",
    "Busy",
    "Day",
    "DayMean",
    "DayRow",
    "Follower",
    "Guard",
    "Guesses",
    "HistoryDeduplicator",
    "IngestResult",
    "Ingestor",
    "KEPT",
    "Late",
    "LiveScorer",
    "Message",
    "NotTold",
    "Opening",
    "Refused",
    "Reward",
    "RowLog",
    "SECONDS",
    "Scheduler",
    "Service",
    "Succession",
    "UNSURE",
    "Watch",
    "WatchReport",
    "alarms",
    "check_installed",
    "check_live",
    "checked_binding",
    "checked_proxies",
    "impatient",
    "is_loopback",
    "looks",
    "make_app",
    "media_type",
    "message_from",
    "message_schema",
    "opened",
    "opened_service",
    "post",
    "report",
    "see_to",
    "serve",
    "serve_workers",
    "tell",
    "together",
    "version_of",
]


def __getattr__(name: str) -> Any:
    if name in _LATER:
        check_installed()
        return getattr(import_module(f"accord.live.service.{_LATER[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
