"""Issues: what is wrong with each turn, which words show it, how bad it is, in a sentence that a person can check.

Mendonça et al., *SODA-EVAL: Open-Domain Dialogue Evaluation in the age of LLMs*, Findings of EMNLP 2024.
"""

from accord.assessment import Assessment, Issue, Unassessed
from accord.issues.annotating import annotate
from accord.issues.mending import mend, mended
from accord.issues.reading import Verdict, read_verdict, read_verdicts
from accord.issues.selection import judged_turns, largest
from accord.issues.statistics import statistics

__all__ = [
    "Assessment",
    "Issue",
    "Unassessed",
    "Verdict",
    "annotate",
    "judged_turns",
    "largest",
    "mend",
    "mended",
    "read_verdict",
    "read_verdicts",
    "statistics",
]
