from .found_spans import Recognizer as Recognizer
from .redactor import find_redacted_quote as find_redacted_quote
from .redactor import first_with_redacted_quote as first_with_redacted_quote, KINDS as KINDS
from .redactor import recognizers as recognizers, Redaction as Redaction, Redactor as Redactor
