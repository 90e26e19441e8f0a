from .again import BoardTexts as BoardTexts
from .batch import BatchScorer as BatchScorer, ModelAccess as ModelAccess
from .erased_rows import erase_in_rows as erase_in_rows
from .erased_rows import is_parts_folder as is_parts_folder, is_run as is_run, scored_in as scored_in
from .file import asked_in as asked_in, counted as counted, latest as latest, latest_drift as latest_drift
from .file import latest_scored as latest_scored, latest_scores as latest_scores, score as score
from .file import score_again as score_again, score_file as score_file, SCORING_COMMANDS as SCORING_COMMANDS
from .folder import Execution as Execution, merge_parts as merge_parts, score_parts as score_parts, Shard as Shard
from .frames import score_frame as score_frame
from .parts import MANIFEST as MANIFEST
from .pipeline import NOT_COUNTED as NOT_COUNTED, Perspective as Perspective, samples_of as samples_of
from .pipeline import ScoreOptions as ScoreOptions, Scorer as Scorer, Turns as Turns
from .pipeline import with_versions as with_versions
from .results import PartsRun as PartsRun, ScoreRun as ScoreRun, training_text as training_text
from .score_rows import add_parts as add_parts, conversation_time as conversation_time
from .score_rows import ConversationFacts as ConversationFacts, input_of as input_of
from .score_rows import milliseconds as milliseconds, RowOrigin as RowOrigin
from .score_rows import time_of as time_of
