from .accounts import ONE_TIME_LINK as ONE_TIME_LINK, Role as Role, ROLES as ROLES, SINGLE_USER as SINGLE_USER
from .accounts import UserAccount as UserAccount, UserAccounts as UserAccounts
from .backup import backup as backup, prune as prune, restore as restore, vacuum as vacuum
from .derived_tables import ComputedCache as ComputedCache, VECTOR_DTYPE as VECTOR_DTYPE, VectorCache as VectorCache
from .chats import Chat as Chat, ChatLimits as ChatLimits, Chats as Chats, ChatTurn as ChatTurn, DIED as DIED
from .engine import located_store as located_store, open_engine as open_engine, store_exists as store_exists
from .engine import store_file as store_file, StoreError as StoreError
from .group_commit import Conflict as Conflict
from .imports import (
    ImportRecord as ImportRecord,
    Imports as Imports,
    Orphans as Orphans,
    RemovedCounts as RemovedCounts,
)
from .integrity import check_store as check_store, Damage as Damage, StoreCheck as StoreCheck
from .derived_tables import IssueAnnotations as IssueAnnotations
from .mart.rows import BATCH_ROWS as BATCH_ROWS, LIVE_ROWS as LIVE_ROWS
from .mart.mart import Mart as Mart, MartState as MartState
from .mart.mart import MartWriter as MartWriter, MOST_LOOSE_ROWS as MOST_LOOSE_ROWS
from .mart.files import DAMAGED as DAMAGED, mart_folder as mart_folder
from .mart.rows import bundle_of as bundle_of, BUNDLES as BUNDLES, frames_of as frames_of, MART as MART
from .mart.rows import mart_schema as mart_schema, MartRow as MartRow, row_key as row_key
from .mart.queries import EvaluatorScores as EvaluatorScores, runs_in as runs_in, score_row as score_row
from .mart.queries import scores_of_conversation as scores_of_conversation, scores_of_run as scores_of_run
from .derived_tables import MonitoringTables as MonitoringTables
from .request_claims import add_paid_rows as add_paid_rows, ClaimResult as ClaimResult, Claims as Claims
from .request_claims import LEASE_SECONDS as LEASE_SECONDS, PaidRow as PaidRow, Spool as Spool
from .request_claims import UnsavedAnswers as UnsavedAnswers, utc_now as utc_now
from .rows import AddedCounts as AddedCounts, AnnotationKeys as AnnotationKeys, batches as batches
from .rows import changed_conversation as changed_conversation, conversation_row as conversation_row
from .rows import label_of as label_of, label_row as label_row, now as now, TableRow as TableRow
from .schema import metadata as metadata, SCHEMA_VERSION as SCHEMA_VERSION
from .request_claims import Amounts as Amounts, MONEY_UNITS as MONEY_UNITS, SharedBudget as SharedBudget
from .store import ANNOTATION_BATCH as ANNOTATION_BATCH, Store as Store
from .studies import ADJUDICATED as ADJUDICATED, Assignment as Assignment, Candidate as Candidate, Item as Item
from .studies import LeaseExpired as LeaseExpired, Prediction as Prediction, Studies as Studies
from .label_counts import LabelCounts as LabelCounts
