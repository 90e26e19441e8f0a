"""One run, stage by stage: import, collect evidence, compare and fit, score. Each stage takes the store it works on."""

from accord.pipeline.collecting import collect, judge_stored, make_budget, make_judge, plan_stored, subjects_of
from accord.pipeline.importing import Imported, import_files
from accord.pipeline.learning import Trial, compare_stored, try_out
from accord.pipeline.scoring import Speaker, latest_scores, score_all, score_file

__all__ = [
    "Imported",
    "Speaker",
    "Trial",
    "collect",
    "compare_stored",
    "import_files",
    "judge_stored",
    "latest_scores",
    "make_budget",
    "make_judge",
    "plan_stored",
    "score_all",
    "score_file",
    "subjects_of",
    "try_out",
]
