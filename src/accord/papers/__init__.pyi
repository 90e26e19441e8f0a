from .study import Part as Part, PartResult as PartResult, PartTable as PartTable, Row as Row, run_parts as run_parts
from .study import StudyInput as StudyInput
from .catalog import Paper as Paper, open_paper as open_paper, PAPERS as PAPERS
from .pages import paper_page as paper_page, write_page as write_page
