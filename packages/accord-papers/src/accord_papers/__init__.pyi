from .study import Part as Part, PartResult as PartResult, PartTable as PartTable, Row as Row, run_parts as run_parts
from .study import mean_interval as mean_interval, spread_name as spread_name, spread_of as spread_of
from .study import StudyInput as StudyInput
from .catalog import Paper as Paper, open_paper as open_paper, PAPERS as PAPERS
from .pages import paper_page as paper_page, write_page as write_page
from .soda_eval.figures import error_chart as error_chart, reduction_chart as reduction_chart
from .soda_eval.figures import REVISION_STATISTICS as REVISION_STATISTICS, revision_rows as revision_rows
