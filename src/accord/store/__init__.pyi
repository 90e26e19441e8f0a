from .account import Account as Account, Amounts as Amounts, MONEY as MONEY
from .check import Checked as Checked, Damage as Damage, check_store as check_store
from .engine import StoreError as StoreError, located_store as located_store, newest_migration as newest_migration
from .engine import open_engine as open_engine, store_exists as store_exists, store_file as store_file
from .imports import Imports as Imports, Recorded as Recorded, Removed as Removed
from .mart import BATCH_ROWS as BATCH_ROWS, LIVE_ROWS as LIVE_ROWS, LOOSE as LOOSE, Mart as Mart, MartState as MartState
from .mart import MartWriter as MartWriter, mart_folder as mart_folder
from .mart_files import DAMAGED as DAMAGED
from .mart_rows import BUNDLES as BUNDLES, MART as MART, MartRow as MartRow, bundle_of as bundle_of
from .mart_rows import frames_of as frames_of, mart_schema as mart_schema, row_key as row_key
from .paid import Claims as Claims, LEASE_SECONDS as LEASE_SECONDS, Paid as Paid, Spool as Spool, Taken as Taken
from .paid import Unsaved as Unsaved, add_paid as add_paid, utc as utc
from .parts import Computed as Computed, Embedded as Embedded, IssueAnnotations as IssueAnnotations, WIRE as WIRE
from .parts import Watched as Watched, labels_state as labels_state
from .people import Conflict as Conflict, ONE_TIME_LINK as ONE_TIME_LINK, People as People, Person as Person
from .people import ROLES as ROLES, Role as Role, SINGLE_USER as SINGLE_USER
from .rows import Added as Added, Columns as Columns, Keys as Keys, batches as batches
from .rows import changed_conversation as changed_conversation, conversation_row as conversation_row
from .rows import label_row as label_row, now as now, unknown_target as unknown_target
from .schema import metadata as metadata
from .scored import RunScores as RunScores, live_scores as live_scores, scores_about as scores_about
from .store import LABELS_AT_ONCE as LABELS_AT_ONCE, Store as Store
from .studies import ADJUDICATED as ADJUDICATED, Assignment as Assignment, Candidate as Candidate, Item as Item
from .studies import LeaseExpired as LeaseExpired, Prediction as Prediction, Studies as Studies
from .talks import DIED as DIED, Limits as Limits, Said as Said, Talk as Talk, Talks as Talks
from .upkeep import backup as backup, prune as prune, restore as restore, vacuum as vacuum
