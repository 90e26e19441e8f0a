from .board import Board as Board, new_scores_section as new_scores_section, NEXT as NEXT, PAGE as PAGE
from .comparisons import describe_test as describe_test, difference_in_words as difference_in_words
from .filters import BoardFilters as BoardFilters, dimension_in_words as dimension_in_words, DIMENSIONS as DIMENSIONS
from .filters import filter_in_words as filter_in_words, ORDERS as ORDERS
from .score_reader import SelectedScores as SelectedScores
from .statistics import GROUP_BINS as GROUP_BINS, TimeSeries as TimeSeries
from .summary import BoardFigures as BoardFigures, stated_difference as stated_difference
from .texts import opening_words as opening_words
