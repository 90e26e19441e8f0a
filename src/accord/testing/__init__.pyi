from .contracts import check_batch_scorer as check_batch_scorer, check_format as check_format
from .contracts import check_head as check_head, check_judge as check_judge, check_metric as check_metric
from .contracts import check_recognizer as check_recognizer
from .contracts import check_selection_policy as check_selection_policy, check_source as check_source
from .contracts import check_turn_metric as check_turn_metric
from .sample import SMALL_PROFILE as SMALL_PROFILE, sample_project as sample_project
from .server import ChatServer as ChatServer, completion as completion
from .synthetic_ratings import planted as planted
