from .backup import backup as backup, prune as prune, restore as restore, vacuum as vacuum
from .derived_tables import ComputedCache as ComputedCache, IssueAnnotations as IssueAnnotations
from .derived_tables import MonitoringTables as MonitoringTables, VECTOR_DTYPE as VECTOR_DTYPE
from .derived_tables import VectorCache as VectorCache
from .engine import located_store as located_store, store_exists as store_exists, store_file as store_file
from .engine import StoreError as StoreError
from .erasure.erased_rows import erase_in_file as erase_in_file, ErasedNames as ErasedNames
from .erasure.erased_rows import hashed_name as hashed_name, parquet_of as parquet_of, scored_in as scored_in
from .erasure.erased_text import ErasedText as ErasedText
from .erasure.erasing import Erasures as Erasures
from .group_commit import Conflict as Conflict
from .imports import ImportRecord as ImportRecord, ImportRun as ImportRun, Imports as Imports
from .imports import RemovedCounts as RemovedCounts
from .integrity import check_store as check_store, is_store_file as is_store_file
from .label_counts import LabelCounts as LabelCounts
from .mart.files import check_part as check_part, mart_folder as mart_folder, scan_part as scan_part
from .mart.mart import COUNTED as COUNTED, Mart as Mart, MartRow as MartRow, MartState as MartState
from .mart.mart import MartWriter as MartWriter
from .mart.queries import EvaluatorScores as EvaluatorScores, runs_in as runs_in
from .mart.queries import scores_of_conversation as scores_of_conversation
from .mart.queries import scores_of_conversations as scores_of_conversations, scores_of_run as scores_of_run
from .people.accounts import ONE_TIME_LINK as ONE_TIME_LINK, Role as Role, ROLES as ROLES, SINGLE_USER as SINGLE_USER
from .people.accounts import UserAccount as UserAccount
from .people.chats import Chat as Chat, ChatLimits as ChatLimits, Chats as Chats, ChatTurn as ChatTurn, DIED as DIED
from .people.studies import Assignment as Assignment, Candidate as Candidate
from .people.studies import Item as Item, LeaseExpired as LeaseExpired, Prediction as Prediction, Studies as Studies
from .anchors import Anchor as Anchor
from .request_claims import add_paid_rows as add_paid_rows, answer_count as answer_count, Amounts as Amounts
from .request_claims import ClaimResult as ClaimResult
from .request_claims import Claims as Claims, LEASE_SECONDS as LEASE_SECONDS, MONEY_UNITS as MONEY_UNITS
from .request_claims import PaidRow as PaidRow, SharedBudget as SharedBudget, Spool as Spool
from .request_claims import spool_folders as spool_folders
from .request_claims import UnsavedAnswers as UnsavedAnswers, utc_now as utc_now
from .rows import AddedCounts as AddedCounts, AnnotationKeys as AnnotationKeys, batches as batches
from .rows import changed_conversation as changed_conversation, conversation_row as conversation_row
from .rows import label_of as label_of, label_row as label_row, now as now, TableRow as TableRow
from .schema import ADJUDICATED as ADJUDICATED
from .store import ANNOTATION_BATCH as ANNOTATION_BATCH, Store as Store
from .erasure.tombstones import name_hash as name_hash
from .text_search import TextSearch as TextSearch, words_of as words_of
