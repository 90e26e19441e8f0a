from .bank.ciu import CIU as CIU, PAPER_EFFORT as PAPER_EFFORT, best_phrases as best_phrases, phrases as phrases
from .bank.embedding import BERTSCORE as BERTSCORE, EMBEDDING as EMBEDDING
from .bank.message import ParsedDocument as ParsedDocument, ParsedText as ParsedText, Passage as Passage
from .bank.message import TurnHistory as TurnHistory, TurnMetric as TurnMetric, parsed_document as parsed_document
from .bank.message import turn_metrics as turn_metrics
from .bank.reference import score as score
from .bank.ruber import FOLDS as FOLDS, Pair as Pair, Relatedness as Relatedness, Ruber as Ruber
from .bank.ruber import Unreferenced as Unreferenced, fold_of as fold_of, pairs_of as pairs_of
from .bank.session import MetricSession as MetricSession, NOTHING as NOTHING, WORDLESS as WORDLESS, measured as measured
from .bank.words import CHARACTERS as CHARACTERS, STOP_WORDS as STOP_WORDS, counted_stems as counted_stems
from .bank.words import first_words as first_words, pieces as pieces, stems as stems, tokens as tokens
from .bank.words import word_count as word_count
from .findings import Charts as Charts, Curves as Curves, Figure as Figure, Findings as Findings, Fold as Fold
from .findings import Histogram as Histogram, Point as Point, Points as Points, Section as Section, Table as Table
from .findings import Text as Text, html_table as html_table, number as number, percent as percent
from .findings import text_table as text_table
from .likelihood import LIKELIHOOD as LIKELIHOOD, Likelihoods as Likelihoods, measure_likelihoods as measure_likelihoods
from .likelihood import passages_of as passages_of
from .meaning import MEANING as MEANING, Meaning as Meaning
from .metrics import BANK as BANK, GROUPS as GROUPS, LEXICAL as LEXICAL
from .metrics import Metric as Metric, Metrics as Metrics, REFERENCE as REFERENCE, measure as measure
from .metrics import metric_names as metric_names, metrics as metrics, signature_of as signature_of
from .pairs import differences as differences, in_pairs as in_pairs
from .ratings import Ratings as Ratings, options_of as options_of, ratings as ratings
from .rendering import Readable as Readable, Tabular as Tabular, comparison_table as comparison_table
from .rendering import statistic as statistic
from .rubric_answers import RubricAnswers as RubricAnswers, answer_table as answer_table, ask_rubric as ask_rubric
from .rubric_answers import judge_samples as judge_samples
from .source import Arrays as Arrays, Counts as Counts, Gathered as Gathered, Learned as Learned, Settings as Settings
from .source import Source as Source, SourceContext as SourceContext, State as State, Training as Training
from .source import joined as joined, make_source as make_source, measure_all as measure_all, sources as sources
from .table import Column as Column, EvidenceTable as EvidenceTable, Note as Note, by_row as by_row
from .table import columns_from as columns_from
