from .marks import bar_chart as bar_chart, ChartLine as ChartLine, ChartLink as ChartLink, ChartRow as ChartRow
from .marks import column_chart as column_chart, histogram as histogram, interval_plot as interval_plot
from .marks import legend as legend, line_chart as line_chart, range_rows as range_rows, share_bars as share_bars
from .plot_area import Axis as Axis, Guide as Guide, STYLE as STYLE, ticks as ticks
from .step_bar import step_bar as step_bar
from .score_histogram import HistogramBin as HistogramBin, score_histogram as score_histogram
