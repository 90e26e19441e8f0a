from .bank.reply_features import TurnMetric as TurnMetric, turn_metrics as turn_metrics
from .bank.reply_metrics import CIU as CIU
from .bank.ruber import pairs_of as pairs_of, Relatedness as Relatedness
from .bank.session import Metric as Metric, metrics as metrics, MetricSession as MetricSession
from .bank.words import CHARACTERS as CHARACTERS, counted_stems as counted_stems, first_words as first_words
from .bank.words import pieces as pieces, STOP_WORDS as STOP_WORDS, word_count as word_count
from .likelihood import passages_of as passages_of
from .metric_source import languages_of as languages_of, metric_name as metric_name
from .rating_rows import connected as connected, in_pairs as in_pairs, options_of as options_of, Ratings as Ratings
from .rating_rows import ratings as ratings
from .rendering import comparison_table as comparison_table, Readable as Readable, statistic as statistic
from .rendering import Tabular as Tabular
from .rubric_answers import ask_rubric as ask_rubric
from .source import Arrays as Arrays, GatheredEvidence as GatheredEvidence, joined as joined
from .source import LearnedEvidence as LearnedEvidence, LearnedSource as LearnedSource, make_source as make_source
from .source import measure_all as measure_all, Source as Source, SourceContext as SourceContext, sources as sources
from .source import SourceSettings as SourceSettings, SourceState as SourceState, Training as Training
from .table import by_row as by_row, Column as Column, columns_from as columns_from, EvidenceTable as EvidenceTable
from .table import MEANING as MEANING, Note as Note
