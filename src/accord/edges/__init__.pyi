from .errors import AccordError as AccordError, BadInput as BadInput, BadRow as BadRow, BudgetReached as BudgetReached
from .errors import GateFailed as GateFailed, MissingExtra as MissingExtra, ModelError as ModelError
from .errors import NotFitted as NotFitted, NotSent as NotSent, UnknownName as UnknownName, Unmeasured as Unmeasured
from .input_limits import ARRAYS_BYTES as ARRAYS_BYTES, CARD_BYTES as CARD_BYTES, DEEPEST as DEEPEST
from .input_limits import first_line as first_line, FIRST_MOMENT as FIRST_MOMENT, FREE_BYTES as FREE_BYTES
from .input_limits import in_calendar as in_calendar, is_plain_json as is_plain_json, is_sendable as is_sendable
from .input_limits import is_too_deep as is_too_deep, LAST_MOMENT as LAST_MOMENT, MB as MB, open_regular as open_regular
from .input_limits import open_unpacked as open_unpacked, PACKED_ENDINGS as PACKED_ENDINGS, RATIO as RATIO
from .input_limits import read_card as read_card, read_text as read_text, read_whole as read_whole, regular as regular
from .input_limits import sendable as sendable, sendable_json as sendable_json, shown_size as shown_size
from .input_limits import unpacked_name as unpacked_name, unreadable_parquet as unreadable_parquet
from .input_limits import whole_number as whole_number
from .installing import install_command as install_command
from .output_escaping import bounded as bounded, count_of as count_of, in_lines as in_lines, inert as inert
from .output_escaping import LONGEST_NAME as LONGEST_NAME, on_page as on_page, one_line as one_line, visible as visible
from .output_escaping import written as written
from .output_files import make_private as make_private, open_private as open_private, write_whole as write_whole
from .output_paths import check_output as check_output, is_inside as is_inside, is_same_path as is_same_path
from .output_paths import ProtectedFile as ProtectedFile
from .secrets import is_secret_name as is_secret_name, keep_secret as keep_secret, keep_url_secrets as keep_url_secrets
from .secrets import redacted as redacted, redacted_json as redacted_json, redacted_message as redacted_message
from .strict_yaml import check as check, is_web_address as is_web_address, load_yaml as load_yaml
from .strict_yaml import parse_yaml as parse_yaml, plain_url as plain_url, reasons as reasons
