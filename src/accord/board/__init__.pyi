from .board import Board as Board, BoardFigures as BoardFigures, NEXT as NEXT
from .density import Bin as Bin, Density as Density, density_of as density_of
from .filters import BoardFilters as BoardFilters, Dimension as Dimension, DIMENSIONS as DIMENSIONS, ORDERS as ORDERS
from .score_reader import BoardChoices as BoardChoices, ScoreReader as ScoreReader, SelectedScores as SelectedScores
from .statistics import DisputedText as DisputedText, EvidenceEffect as EvidenceEffect
from .statistics import GroupDifference as GroupDifference, GroupRow as GroupRow, GroupTable as GroupTable
from .statistics import Period as Period, PoweredMean as PoweredMean, QuestionSlope as QuestionSlope
from .statistics import TimeSeries as TimeSeries
from .text_list import listed as listed, ListedText as ListedText, PAGE as PAGE, TextPage as TextPage
