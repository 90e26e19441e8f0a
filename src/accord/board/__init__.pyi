from .board import Board as Board, listed as listed
from .board import ListedText as ListedText, NEXT as NEXT, PAGE as PAGE, TextPage as TextPage
from .comparisons import describe_test as describe_test, difference_in_words as difference_in_words
from .comparisons import MeanDifference as MeanDifference
from .density import Bin as Bin, Density as Density, density_of as density_of
from .filters import BoardFilters as BoardFilters, Dimension as Dimension, dimension_in_words as dimension_in_words
from .filters import DIMENSIONS as DIMENSIONS, ORDERS as ORDERS
from .score_reader import BoardChoices as BoardChoices, ScoreReader as ScoreReader, SelectedScores as SelectedScores
from .statistics import DisputedText as DisputedText, EvidenceEffect as EvidenceEffect
from .statistics import GroupRow as GroupRow, GroupTable as GroupTable
from .statistics import Period as Period, PoweredMean as PoweredMean, QuestionSlope as QuestionSlope
from .statistics import TimeSeries as TimeSeries
from .summary import (
    first_sentence as first_sentence,
    ranking_in_words as ranking_in_words,
    stated_difference as stated_difference,
    times_as_often as times_as_often,
)
from .summary import BoardFigures as BoardFigures
