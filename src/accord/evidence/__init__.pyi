from .bank.reply_features import DocumentPassage as DocumentPassage, parsed_document as parsed_document
from .bank.reply_features import ParsedDocument as ParsedDocument, ParsedText as ParsedText
from .bank.reply_features import turn_metrics as turn_metrics, TurnHistory as TurnHistory, TurnMetric as TurnMetric
from .bank.reply_metrics import BANK as BANK, BERTSCORE as BERTSCORE, CIU as CIU, EMBEDDING as EMBEDDING
from .bank.reply_metrics import PAPER_EFFORT as PAPER_EFFORT, REFERENCE as REFERENCE, score as score
from .bank.ruber import fold_of as fold_of, FOLDS as FOLDS, Pair as Pair, pairs_of as pairs_of
from .bank.ruber import Relatedness as Relatedness, Ruber as Ruber, Unreferenced as Unreferenced
from .bank.session import LEXICAL as LEXICAL, Metric as Metric, metrics as metrics, MetricSession as MetricSession
from .bank.session import NOTHING as NOTHING, WORDLESS as WORDLESS
from .bank.words import CHARACTERS as CHARACTERS, counted_stems as counted_stems, first_words as first_words
from .bank.words import pieces as pieces, stems as stems, STOP_WORDS as STOP_WORDS, tokens as tokens
from .bank.words import word_count as word_count
from .likelihood import LIKELIHOOD as LIKELIHOOD, Likelihoods as Likelihoods, measure_likelihoods as measure_likelihoods
from .likelihood import passages_of as passages_of
from .metric_source import GROUPS as GROUPS, languages_of as languages_of, measure as measure
from .metric_source import metric_name as metric_name, metric_names as metric_names, Metrics as Metrics
from .metric_source import SentenceEmbeddings as SentenceEmbeddings, signature_of as signature_of
from .rating_rows import connected as connected, differences as differences, in_pairs as in_pairs
from .rating_rows import options_of as options_of, Ratings as Ratings, ratings as ratings
from .rendering import comparison_table as comparison_table, Readable as Readable, statistic as statistic
from .rendering import Tabular as Tabular
from .rubric_answers import answer_table as answer_table, ask_rubric as ask_rubric, judge_samples as judge_samples
from .rubric_answers import RubricAnswers as RubricAnswers
from .source import Arrays as Arrays, GatheredEvidence as GatheredEvidence, joined as joined
from .source import LearnedEvidence as LearnedEvidence, LearnedSource as LearnedSource, make_source as make_source
from .source import measure_all as measure_all, Source as Source, SourceContext as SourceContext, sources as sources
from .source import SourceSettings as SourceSettings, SourceState as SourceState, Training as Training
from .table import by_row as by_row, Column as Column, columns_from as columns_from, EvidenceTable as EvidenceTable
from .table import MEANING as MEANING, Note as Note
