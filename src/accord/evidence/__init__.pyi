from .bank.conversation_words import Metric as Metric, metrics as metrics
from .bank.incremental import measured as measured, MetricSession as MetricSession, NOTHING as NOTHING
from .bank.incremental import WORDLESS as WORDLESS
from .bank.overlap import best_phrases as best_phrases, CIU as CIU, PAPER_EFFORT as PAPER_EFFORT, phrases as phrases
from .bank.reply_features import parsed_document as parsed_document, ParsedDocument as ParsedDocument
from .bank.reply_features import ParsedText as ParsedText, Passage as Passage, turn_metrics as turn_metrics
from .bank.reply_features import TurnHistory as TurnHistory, TurnMetric as TurnMetric
from .bank.ruber import fold_of as fold_of, FOLDS as FOLDS, Pair as Pair, pairs_of as pairs_of
from .bank.ruber import Relatedness as Relatedness, Ruber as Ruber, Unreferenced as Unreferenced
from .bank.similarity import BERTSCORE as BERTSCORE, EMBEDDING as EMBEDDING, REFERENCE as REFERENCE, score as score
from .bank.tokens import CHARACTERS as CHARACTERS, counted_stems as counted_stems, first_words as first_words
from .bank.tokens import pieces as pieces, stems as stems, STOP_WORDS as STOP_WORDS, tokens as tokens
from .bank.tokens import word_count as word_count
from .likelihood import LIKELIHOOD as LIKELIHOOD, Likelihoods as Likelihoods, measure_likelihoods as measure_likelihoods
from .likelihood import passages_of as passages_of
from .metric_source import BANK as BANK, GROUPS as GROUPS, LEXICAL as LEXICAL, MEANING as MEANING, Meaning as Meaning
from .metric_source import measure as measure, metric_names as metric_names, Metrics as Metrics
from .metric_source import signature_of as signature_of
from .rating_rows import differences as differences, in_pairs as in_pairs, options_of as options_of, Ratings as Ratings
from .rating_rows import ratings as ratings
from .rendering import comparison_table as comparison_table, Readable as Readable, statistic as statistic
from .rendering import Tabular as Tabular
from .rubric_answers import answer_table as answer_table, ask_rubric as ask_rubric, judge_samples as judge_samples
from .rubric_answers import RubricAnswers as RubricAnswers
from .source import Arrays as Arrays, Counts as Counts, Gathered as Gathered, joined as joined, Learned as Learned
from .source import LearnedSource as LearnedSource, make_source as make_source, measure_all as measure_all
from .source import Settings as Settings, Source as Source, SourceContext as SourceContext, sources as sources
from .source import State as State, Training as Training
from .table import by_row as by_row, Column as Column, columns_from as columns_from, EvidenceTable as EvidenceTable
from .table import Note as Note
