from .board import Board as Board, Figures as Figures, NEXT as NEXT
from .density import Bin as Bin, Density as Density, density_of as density_of
from .figures import Controversial as Controversial, Difference as Difference, GroupRow as GroupRow
from .figures import GroupTable as GroupTable, Moment as Moment, OverTime as OverTime, Powered as Powered, Pull as Pull
from .figures import Rise as Rise
from .listing import Listed as Listed, listed as listed, PAGE as PAGE, Page as Page
from .reading import Choices as Choices, Reader as Reader, Texts as Texts
from .selection import Dimension as Dimension, DIMENSIONS as DIMENSIONS, ORDERS as ORDERS, Selection as Selection
