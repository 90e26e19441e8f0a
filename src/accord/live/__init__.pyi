from .hot_reload import Succession as Succession, version_of as version_of
from .ingest import Ingestor as Ingestor, opened as opened, RowLog as RowLog
from .log_follower import Follower as Follower
from .messages import HistoryDeduplicator as HistoryDeduplicator, Message as Message, message_from as message_from
from .monitoring.alarms import Alarm as Alarm, alarms as alarms, looks as looks
from .monitoring.daily_sketch import Day as Day, DayMean as DayMean, KEPT as KEPT, UNSURE as UNSURE
from .monitoring.monitor import DayRow as DayRow, report as report, see_to as see_to, tell as tell, Watch as Watch
from .monitoring.monitor import WatchReport as WatchReport
from .monitoring.scheduler import NotTold as NotTold, post as post, Scheduler as Scheduler
from .reward import Reward as Reward
from .scorer import check_live as check_live, IngestResult as IngestResult, LiveScorer as LiveScorer
from .service.app import make_app as make_app, Service as Service, unavailable_app as unavailable_app
from .service.fair_queue import Batcher as Batcher, Busy as Busy, Late as Late
from .service.middleware import App as App, check_installed as check_installed, checked_token as checked_token
from .service.middleware import exposure as exposure, Guard as Guard, Guesses as Guesses, host_name as host_name
from .service.middleware import is_local as is_local, is_loopback as is_loopback, Refused as Refused, SECONDS as SECONDS
from .service.middleware import together as together
from .service.schemas import media_type as media_type, message_schema as message_schema
from .service.server import checked_proxies as checked_proxies, impatient as impatient, serve as serve
from .service.workers import opened_service as opened_service, Opening as Opening, scoring_problem as scoring_problem
from .service.workers import serve_workers as serve_workers
