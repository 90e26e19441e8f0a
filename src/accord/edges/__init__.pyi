from .errors import AccordError as AccordError, BadInput as BadInput, BadRow as BadRow
from .errors import BudgetReached as BudgetReached, GateFailed as GateFailed, install_command as install_command
from .errors import (
    MissingExtra as MissingExtra,
    ModelError as ModelError,
    ModelSetting as ModelSetting,
    NotFitted as NotFitted,
)
from .errors import (
    NotSent as NotSent,
    PluginError as PluginError,
    reason_of as reason_of,
    Step as Step,
    UnknownName as UnknownName,
    Unmeasured as Unmeasured,
)
from .input_limits import ARRAYS_BYTES as ARRAYS_BYTES, CARD_BYTES as CARD_BYTES, first_line as first_line
from .input_limits import FIRST_MOMENT as FIRST_MOMENT, format_size as format_size, FREE_BYTES as FREE_BYTES
from .input_limits import is_in_calendar as is_in_calendar, is_plain_json as is_plain_json
from .input_limits import is_sendable as is_sendable, is_too_deep as is_too_deep, is_web_page as is_web_page
from .input_limits import LAST_MOMENT as LAST_MOMENT
from .input_limits import MAX_DEPTH as MAX_DEPTH, MAX_FIELDS as MAX_FIELDS, MAX_UNPACK_RATIO as MAX_UNPACK_RATIO
from .input_limits import MB as MB, open_regular as open_regular, open_unpacked as open_unpacked
from .input_limits import parse_time as parse_time, parse_whole_number as parse_whole_number
from .input_limits import read_bytes as read_bytes, read_json_file as read_json_file, read_text as read_text
from .input_limits import regular_size as regular_size
from .input_limits import sendable as sendable, sendable_json as sendable_json, unpacked_name as unpacked_name
from .input_limits import unreadable_parquet as unreadable_parquet
from .output_escaping import count_of as count_of, escape_controls as escape_controls
from .output_escaping import escape_formula as escape_formula, hide_folders as hide_folders
from .output_escaping import LONGEST_NAME as LONGEST_NAME, one_line as one_line, one_line_json as one_line_json
from .output_escaping import page_text as page_text, truncate_middle as truncate_middle
from .output_escaping import unescape_formula as unescape_formula
from .output_paths import check_folder_names as check_folder_names, check_output as check_output
from .output_paths import create_private as create_private, is_inside as is_inside
from .output_paths import is_same_path as is_same_path, open_private as open_private, ProtectedFile as ProtectedFile
from .output_paths import replace_file as replace_file, write_atomically as write_atomically
from .secrets import is_secret_name as is_secret_name, redact as redact, redact_json as redact_json
from .secrets import redact_message as redact_message, register_secret as register_secret
from .secrets import register_url_secrets as register_url_secrets
from .strict_yaml import dump_yaml as dump_yaml, FROM_ENVIRONMENT as FROM_ENVIRONMENT
from .strict_yaml import is_web_address as is_web_address, load_yaml as load_yaml, parse_yaml as parse_yaml
from .strict_yaml import strip_url_secrets as strip_url_secrets, validate as validate
from .strict_yaml import validation_messages as validation_messages
from .trust import (
    accept_trust as accept_trust,
    ask_with as ask_with,
    check_address as check_address,
    check_code as check_code,
)
from .trust import check_ownership as check_ownership
from .trust import is_elsewhere as is_elsewhere, is_local_address as is_local_address
from .trust import is_trusted as is_trusted, note_addresses as note_addresses, Noted as Noted
from .trust import noted_trust as noted_trust, origin_of as origin_of, own_project as own_project
from .trust import project_that_set as project_that_set, set_variable as set_variable
from .trust import trust_folder as trust_folder, trust_in_process as trust_in_process, trusted_file as trusted_file
