from .evidence import EvidenceTable as EvidenceTable, Source as Source, metrics as metrics
from .formats import read as read, read_labels as read_labels
from .learning import Evaluator as Evaluator, load_evaluator as load_evaluator
from .live import LiveScorer as LiveScorer, Reward as Reward
from .models import ChatModel as ChatModel, Judge as Judge
from .scoring import score_frame as score_frame
from .store import Store as Store
from .table_check import check as check
from .validation import compare as compare
from .verbs import Project as Project, open as open
from .edges import AccordError as AccordError, BadInput as BadInput
from .values import Conversation as Conversation
from .values import Document as Document, Label as Label, Labels as Labels, Question as Question, Rubric as Rubric
from .values import Scale as Scale, Score as Score, Target as Target, Turn as Turn, Unscored as Unscored
from .values import load_rubric as load_rubric
from .version import __version__ as __version__
