from .contracts import check_batch_scorer as check_batch_scorer, check_head as check_head, check_metric as check_metric
from .contracts import check_selection_policy as check_selection_policy, check_source as check_source
from .sample import sample_project as sample_project
from .server import Batches as Batches, ChatServer as ChatServer, completion as completion, decisions as decisions
from .server import Respond as Respond, spoken as spoken, tokens_in as tokens_in, Wire as Wire
from .synthetic_ratings import annotator_levels as annotator_levels, Planted as Planted, planted as planted
