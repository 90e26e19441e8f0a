from . import batch as batch, folder as folder, parts as parts
from .batch import BatchScorer as BatchScorer, ModelAccess as ModelAccess
from .file import counted as counted, latest as latest, latest_drift as latest_drift, latest_scored as latest_scored
from .file import latest_scores as latest_scores, asked_in as asked_in
from .file import SCORING_COMMANDS as SCORING_COMMANDS, score as score, score_file as score_file
from .folder import Execution as Execution, merge_parts as merge_parts, score_parts as score_parts
from .folder import Shard as Shard
from .parts import finished as finished, read_manifest as read_manifest
from .pipeline import Perspective as Perspective, samples_of as samples_of, ScoreOptions as ScoreOptions
from .pipeline import Scorer as Scorer, Scores as Scores, TURNS as TURNS, Turns as Turns
from .results import PartsRun as PartsRun, ScoreCounts as ScoreCounts, ScoreRun as ScoreRun
from .score_rows import add_parts as add_parts, ConversationFacts as ConversationFacts, input_of as input_of
from .score_rows import MartRepair as MartRepair, milliseconds as milliseconds, repair as repair, RowOrigin as RowOrigin
from .pipeline import NOT_COUNTED as NOT_COUNTED
