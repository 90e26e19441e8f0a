"""What many scores look like together: distributions, means over time, differences, and what is behind each."""

from accord.board.board import NEXT, Board, Figures
from accord.board.density import Bin, Density, density_of
from accord.board.figures import Controversial, Difference, GroupRow, GroupTable, Moment, OverTime, Powered, Pull, Rise
from accord.board.listing import PAGE, Listed, Page, listed
from accord.board.reading import Choices, Reader, Texts
from accord.board.resampled import Ranged
from accord.board.selection import DIMENSIONS, ORDERS, Dimension, Selection

__all__ = [
    "Bin",
    "Board",
    "Choices",
    "Controversial",
    "DIMENSIONS",
    "Density",
    "Difference",
    "Dimension",
    "Figures",
    "GroupRow",
    "GroupTable",
    "Listed",
    "Moment",
    "NEXT",
    "ORDERS",
    "OverTime",
    "PAGE",
    "Page",
    "Powered",
    "Pull",
    "Ranged",
    "Reader",
    "Rise",
    "Selection",
    "Texts",
    "density_of",
    "listed",
]
