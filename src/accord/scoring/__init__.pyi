from . import batch as batch, parts as parts
from .batch import Asking as Asking, BatchScorer as BatchScorer
from .certificate import Certificate as Certificate, certify as certify
from .file import counted as counted, latest as latest, latest_drift as latest_drift, latest_scores as latest_scores
from .file import score as score, score_file as score_file
from .folder import merge_parts as merge_parts, Moved as Moved, score_parts as score_parts, Shard as Shard
from .folder import Spread as Spread
from .mart_writer import Facts as Facts, input_of as input_of, milliseconds as milliseconds, rebuild as rebuild
from .mart_writer import Rebuilt as Rebuilt, Scoring as Scoring, take_parts as take_parts
from .parts import finished as finished, read_manifest as read_manifest
from .pipeline import Perspective as Perspective, samples_of as samples_of, ScoreOptions as ScoreOptions
from .pipeline import Scorer as Scorer, Scores as Scores, TURNS as TURNS, Turns as Turns
from .results import PartsRun as PartsRun, ScoreCounts as ScoreCounts, ScoreRun as ScoreRun
from .selective import LEFT as LEFT, left_for_people as left_for_people, NOT_COUNTED as NOT_COUNTED
from .selective import Selection as Selection
