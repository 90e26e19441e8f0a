from .accounts import (
    Conflict as Conflict,
    ONE_TIME_LINK as ONE_TIME_LINK,
    UserAccounts as UserAccounts,
    UserAccount as UserAccount,
)
from .accounts import Role as Role, ROLES as ROLES, SINGLE_USER as SINGLE_USER
from .backup import backup as backup, prune as prune, restore as restore, vacuum as vacuum
from .conversation_scores import live_scores as live_scores, RunScores as RunScores, scores_about as scores_about
from .engine import located_store as located_store, newest_migration as newest_migration, open_engine as open_engine
from .engine import store_exists as store_exists, store_file as store_file, StoreError as StoreError
from .imports import Imports as Imports, ImportRecord as ImportRecord, RemovedCounts as RemovedCounts
from .integrity import check_store as check_store, StoreCheck as StoreCheck, Damage as Damage
from .mart import BATCH_ROWS as BATCH_ROWS, LIVE_ROWS as LIVE_ROWS, LOOSE as LOOSE, Mart as Mart
from .mart import mart_folder as mart_folder, MartState as MartState, MartWriter as MartWriter
from .mart_files import DAMAGED as DAMAGED
from .mart_rows import bundle_of as bundle_of, BUNDLES as BUNDLES, frames_of as frames_of, MART as MART
from .mart_rows import mart_schema as mart_schema, MartRow as MartRow, row_key as row_key
from .parts import ComputedCache as ComputedCache, VectorCache as VectorCache, IssueAnnotations as IssueAnnotations
from .parts import labels_version as labels_version, MonitoringTables as MonitoringTables, VECTOR_DTYPE as VECTOR_DTYPE
from .request_claims import (
    add_paid_rows as add_paid_rows,
    Claims as Claims,
    LEASE_SECONDS as LEASE_SECONDS,
    PaidRow as PaidRow,
)
from .request_claims import (
    Spool as Spool,
    ClaimResult as ClaimResult,
    UnsavedAnswers as UnsavedAnswers,
    utc_now as utc_now,
)
from .rows import (
    AddedCounts as AddedCounts,
    batches as batches,
    changed_conversation as changed_conversation,
    TableRow as TableRow,
)
from .rows import (
    conversation_row as conversation_row,
    AnnotationKeys as AnnotationKeys,
    label_row as label_row,
    now as now,
)
from .rows import unknown_target as unknown_target
from .schema import metadata as metadata
from .shared_budget import SharedBudget as SharedBudget, Amounts as Amounts, MONEY_UNITS as MONEY_UNITS
from .store import ANNOTATION_BATCH as ANNOTATION_BATCH, Store as Store
from .studies import ADJUDICATED as ADJUDICATED, Assignment as Assignment, Candidate as Candidate, Item as Item
from .studies import LeaseExpired as LeaseExpired, Prediction as Prediction, Studies as Studies
from .talks import DIED as DIED, ChatLimits as ChatLimits, ChatTurn as ChatTurn, Chat as Chat, Chats as Chats
