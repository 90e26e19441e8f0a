from .contracts import check_batch_scorer as check_batch_scorer, check_head as check_head
from .contracts import check_metric as check_metric, check_selection_policy as check_selection_policy
from .contracts import check_source as check_source
from .sample import sample_project as sample_project
from .server import ChatServer as ChatServer, completion as completion
from .synthetic_ratings import planted as planted
