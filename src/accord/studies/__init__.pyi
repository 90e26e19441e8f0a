from .annotator_agreement import Apart as Apart, CountedEstimate as CountedEstimate, Habit as Habit, habits as habits
from .annotator_agreement import taken_apart as taken_apart, Unit as Unit, worst as worst
from .answer_parsing import BOTH_BAD as BOTH_BAD, text_in as text_in, value_in as value_in
from .background_learning import FIT as FIT, Loop as Loop
from .chat_session import OpenTalk as OpenTalk
from .citations import excerpts as excerpts, Passages as Passages, Used as Used
from .human_studies import FLOWS as FLOWS, open_validation as open_validation, outcome as outcome, outcomes as outcomes
from .human_studies import shipped_study as shipped_study
from .issue_validity import detection_outcome as detection_outcome
from .item_order import Order as Order
from .item_sampling import drawn as drawn, eligible as eligible
from .predicted_ratings import Expected as Expected, Guess as Guess, Perspectives as Perspectives
from .rating_revision import agreement_with_all as agreement_with_all, agreement_with_model as agreement_with_model
from .rating_revision import agreement_with_others as agreement_with_others, overall_outcome as overall_outcome
from .study_outcome import Given as Given, Outcome as Outcome, Resampling as Resampling, table as table
from .study_outcome import Validated as Validated
from .study_progress import norming_items as norming_items, Standing as Standing
from .study_session import OpenStudy as OpenStudy, ROWS as ROWS, Sheet as Sheet, Side as Side, side_of as side_of
from .study_session import tool_calls_of as tool_calls_of
