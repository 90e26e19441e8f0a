from .ingest import LiveContext as LiveContext, NewScore as NewScore, open_ingestor as open_ingestor
from .ingest import RowLog as RowLog, Sink as Sink
from .log_follower import LogFollower as LogFollower
from .monitoring import DayRow as DayRow, MonitoringReport as MonitoringReport, post_alarms as post_alarms
from .monitoring import raise_alarms as raise_alarms, recover as recover, report as report, send_alarms as send_alarms
from .reward import Reward as Reward
from .scorer import LiveScorer as LiveScorer
from .service.app import make_app as make_app, unavailable_app as unavailable_app
from .service.service import open_service as open_service, scoring_problem as scoring_problem
from .service.middleware import App as App, AttemptLimiter as AttemptLimiter, check_installed as check_installed
from .service.middleware import checked_token as checked_token, combine_apps as combine_apps, exposure as exposure
from .service.middleware import Guard as Guard, host_name as host_name, is_local as is_local
from .service.middleware import is_loopback as is_loopback, Refused as Refused, REQUEST_SECONDS as REQUEST_SECONDS
from .service.schemas import media_type as media_type
from .service.server import checked_proxies as checked_proxies, serve as serve
