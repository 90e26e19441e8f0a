from .alarms import Alarm as Alarm, find_alarms as find_alarms, number_of_checks as number_of_checks
from .daily_sketch import DailyMean as DailyMean, DaySketch as DaySketch, MAX_CONVERSATIONS as MAX_CONVERSATIONS
from .daily_sketch import MAX_UNCERTAIN as MAX_UNCERTAIN
from .ingest import EvaluatorReloader as EvaluatorReloader, folder_version as folder_version
from .ingest import Ingestor as Ingestor, open_ingestor as open_ingestor, RowLog as RowLog
from .log_follower import LogFollower as LogFollower
from .messages import HistoryDeduplicator as HistoryDeduplicator, Message as Message, message_from as message_from
from .monitoring import DayRow as DayRow, MonitoringReport as MonitoringReport, MonitoringThread as MonitoringThread
from .monitoring import raise_alarms as raise_alarms, report as report, ScoreMonitor as ScoreMonitor
from .monitoring import post_alarms as post_alarms, send_alarms as send_alarms, WebhookError as WebhookError
from .reward import Reward as Reward
from .scorer import check_live as check_live, IngestResult as IngestResult, LiveScorer as LiveScorer
from .service.app import make_app as make_app, open_service as open_service, scoring_problem as scoring_problem
from .service.app import Service as Service, unavailable_app as unavailable_app
from .service.fair_queue import FairQueue as FairQueue, QueueFull as QueueFull, ScoringTimeout as ScoringTimeout
from .service.middleware import App as App, AttemptLimiter as AttemptLimiter, check_installed as check_installed
from .service.middleware import checked_token as checked_token, combine_apps as combine_apps, exposure as exposure
from .service.middleware import Guard as Guard, host_name as host_name, is_local as is_local, is_loopback as is_loopback
from .service.middleware import Refused as Refused, REQUEST_SECONDS as REQUEST_SECONDS
from .service.schemas import media_type as media_type, message_schema as message_schema
from .service.server import checked_proxies as checked_proxies, serve as serve, timeout_protocol as timeout_protocol
