from .board import Board as Board, BoardFigures as BoardFigures, listed as listed
from .board import ListedText as ListedText, NEXT as NEXT, PAGE as PAGE, TextPage as TextPage
from .bootstrap import means as means
from .density import Bin as Bin, Density as Density, density_of as density_of
from .filters import BoardFilters as BoardFilters, Dimension as Dimension, DIMENSIONS as DIMENSIONS, ORDERS as ORDERS
from .score_reader import BoardChoices as BoardChoices, ScoreReader as ScoreReader, SelectedScores as SelectedScores
from .statistics import DisputedText as DisputedText, EvidenceEffect as EvidenceEffect
from .statistics import GroupDifference as GroupDifference, GroupRow as GroupRow, GroupTable as GroupTable
from .statistics import Period as Period, PoweredMean as PoweredMean, QuestionSlope as QuestionSlope
from .statistics import TimeSeries as TimeSeries
