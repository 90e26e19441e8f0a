from .following import Follower as Follower
from .ingest import Ingestor as Ingestor, RowLog as RowLog, opened as opened
from .messages import HistoryDeduplicator as HistoryDeduplicator, Message as Message, message_from as message_from
from .reward import Reward as Reward
from .scorer import IngestResult as IngestResult, LiveScorer as LiveScorer, check_live as check_live
from .service.app import Service as Service, make_app as make_app, unavailable_app as unavailable_app
from .service.middleware import App as App, Guard as Guard, Guesses as Guesses, Refused as Refused, SECONDS as SECONDS
from .service.middleware import check_installed as check_installed, checked_token as checked_token
from .service.middleware import exposure as exposure, host_name as host_name
from .service.middleware import is_local as is_local, is_loopback as is_loopback, together as together
from .service.schemas import media_type as media_type, message_schema as message_schema
from .service.server import checked_proxies as checked_proxies, impatient as impatient, serve as serve
from .service.turns import Batcher as Batcher, Busy as Busy, Late as Late
from .service.workers import Opening as Opening, opened_service as opened_service, scoring_problem as scoring_problem
from .service.workers import serve_workers as serve_workers
from .succession import Succession as Succession, version_of as version_of
from .watching.alarms import Alarm as Alarm, alarms as alarms, looks as looks
from .watching.day import Day as Day, DayMean as DayMean, KEPT as KEPT, UNSURE as UNSURE
from .watching.scheduler import NotTold as NotTold, Scheduler as Scheduler, post as post
from .watching.watch import DayRow as DayRow, Watch as Watch, WatchReport as WatchReport, report as report
from .watching.watch import see_to as see_to, tell as tell
