from .look import FONT as FONT, icon as icon, look_file as look_file, STYLE as STYLE
from .look import style_with_font as style_with_font
from .marks import bar_chart as bar_chart, ChartLine as ChartLine, ChartLink as ChartLink
from .marks import column_chart as column_chart, histogram as histogram, interval_plot as interval_plot
from .marks import legend as legend, line_chart as line_chart, share_bars as share_bars
from .plot_area import Axis as Axis, Guide as Guide, ticks as ticks
from .rows import axis_around as axis_around, axis_svg as axis_svg, ChartRow as ChartRow
from .rows import interval_svg as interval_svg, key as key, row_chart as row_chart
from .scatter import scatter as scatter
