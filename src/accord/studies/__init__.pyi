from .adjudication import Adjudication as Adjudication, Dispute as Dispute
from .agreement.sentences import describe_agreement as describe_agreement, describe_levels as describe_levels
from .agreement.sentences import describe_agreement_on as describe_agreement_on, describe_level as describe_level
from .agreement.sentences import describe_parts as describe_parts, level_figures as level_figures
from .agreement.annotators import agreement_figure as agreement_figure, agreement_of as agreement_of
from .agreement.annotators import annotator_habits as annotator_habits, smallest_dispute as smallest_dispute
from .agreement.annotators import AnnotatorHabit as AnnotatorHabit, AnswerMatrix as AnswerMatrix
from .agreement.annotators import decompose_disagreement as decompose_disagreement
from .agreement.annotators import DisagreementParts as DisagreementParts
from .background_jobs import BackgroundJobs as BackgroundJobs, failure_text as failure_text
from .background_learning import BackgroundLearning as BackgroundLearning, FIT as FIT, SCORE as SCORE
from .chat_session import ChatSession as ChatSession
from .citations import CitationFinder as CitationFinder, DocumentUse as DocumentUse, excerpts as excerpts
from .conversation_view import conversation_view as conversation_view, ConversationView as ConversationView
from .conversation_view import tool_calls_of as tool_calls_of, visible_to as visible_to
from .human_studies import ANALYSIS as ANALYSIS, StudyOutcome as StudyOutcome
from .item_order import ItemOrder as ItemOrder
from .item_sampling import sample_items as sample_items
from .predicted_ratings import ConversationPredictions as ConversationPredictions
from .predicted_ratings import PredictionService as PredictionService
from .shipped_studies import load_outcome as load_outcome, load_outcomes as load_outcomes
from .shipped_studies import open_validation as open_validation
from .study_progress import norming_items as norming_items, study_annotators as study_annotators
from .study_progress import QuestionProgress as QuestionProgress, StudyProgress as StudyProgress
from .study_session import ItemView as ItemView, MAX_LISTED_OPTIONS as MAX_LISTED_OPTIONS
from .study_session import StudySession as StudySession
from .submitted_answer import BOTH_BAD as BOTH_BAD, parse_value as parse_value, SubmittedAnswer as SubmittedAnswer
from .submitted_answer import text_field as text_field
