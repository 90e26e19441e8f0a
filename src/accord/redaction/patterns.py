"""Rules that find personal data in a text: patterns, checksums and words of context, for each kind.

A rule is a function of a `SearchedText` that yields spans. Every rule is linear in the length of the text: repetitions
are bounded, and separators never match digits. Patterns run only near a sign, a word or digits that a plain search has
found, since most texts of a log have none. Validated numbers need no context; a telephone number in national
form needs the shape of one country, or a word such as "call" before it.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache

from accord.redaction.national_ids import LETTERED, national_ids
from accord.redaction.searched_text import NUMBER_BEGINS, SearchedText, Spans, beginning, only_digits

Rule = Callable[[SearchedText], Spans]

# --- e-mail addresses and URLs ---------------------------------------------------------------------------------------

_LETTERS = "A-Za-z0-9\u00c0-\u04ff"
_NOT_LOCAL = re.compile(rf"[^{_LETTERS}._%+'-]+")
_LABEL = rf"[{_LETTERS}](?:[{_LETTERS}-]{{0,61}}[{_LETTERS}])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.){{1,6}}[A-Za-z\u00c0-\u04ff]{{2,24}}(?![{_LETTERS}])")
_SPELLED = re.compile(
    rf"(?<![{_LETTERS}._%+-])[{_LETTERS}._%+-]{{1,64}} ?[\[(] ?(?:at|ät|arroba|arobase|chiocciola) ?[\])] ?"
    rf"[{_LETTERS}-]{{1,63}}(?: ?(?:\.|[\[(] ?(?:dot|punkt|point|punto) ?[\])]) ?[{_LETTERS}-]{{1,63}}){{1,4}}",
    re.IGNORECASE,
)


_SPELLINGS = ("at)", "at]", "ät)", "ät]", "at )", "at ]", "arroba", "arobase", "chiocciola")


def _may_be_spelled(searched: SearchedText) -> bool:
    return ("(" in searched.text or "[" in searched.text) and searched.has(_SPELLINGS)


def emails(searched: SearchedText) -> Spans:
    """Yield e-mail addresses, also those written with `(at)`."""
    text = searched.text
    at = text.find("@")
    while at >= 0:
        local = _NOT_LOCAL.split(text[max(at - 64, 0) : at])[-1].lstrip("._%+'-")
        domain = _DOMAIN.match(text, at + 1, at + 256) if local and local != "git" else None
        if domain is not None:
            yield at - len(local), domain.end()
        at = text.find("@", at + 1)
    if _may_be_spelled(searched):
        yield from (match.span() for match in _SPELLED.finditer(text))


_NOT_SCHEME = re.compile(r"[^A-Za-z0-9+.-]")
_URL_REST = re.compile(r"[^\s<>\"'`]{1,2000}")
_USER = re.compile(r"[^/\s@:]{0,200}:[^/\s@]{1,300}@")
_SECRET_QUERY = re.compile(
    r"[?&#;][^=&#;\s]{0,40}(?:key|token|secret|passw|pwd|signature|\bsig\b|auth|credential|session)[^=&#;\s]{0,20}=[^&#\s{\[<$]",
    re.IGNORECASE,
)


def urls(searched: SearchedText) -> Spans:
    """Yield URLs with a user and password, or with a query parameter that is named like a secret."""
    for start, _, rest in _urls(searched.text):
        if _USER.match(rest.group()) or _SECRET_QUERY.search(rest.group()):
            yield start, rest.start() + len(rest.group().rstrip(".,;:!?)]}"))


def _urls(text: str) -> Iterator[tuple[int, int, re.Match[str]]]:
    """Yield the start of a URL, the place after its scheme, and the match of the rest."""
    place = text.find("://")
    while place >= 0:
        scheme = _NOT_SCHEME.split(text[max(place - 22, 0) : place])[-1].lstrip("0123456789+.-")
        rest = _URL_REST.match(text, place + 3) if 2 <= len(scheme) <= 21 else None
        if rest is not None:
            yield place - len(scheme), place + 3, rest
        place = text.find("://", place + 3 if rest is None else rest.end())


# --- secrets ---------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?:"
    r"(?:sk|pk|rk)[-_](?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{16,200}|gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{20,255}"
    r"|glpat-[\w-]{16,64}|xox[abeoprs]-[\w-]{10,250}|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}|AIza[\w-]{30,45}"
    r"|ya29\.[\w-]{20,500}|hf_[A-Za-z0-9]{30,60}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,250}|dop_v1_[0-9a-f]{64}"
    r"|SG\.[\w-]{16,32}\.[\w-]{16,64}|eyJ[\w-]{8,4000}\.eyJ[\w-]{8,8000}\.[\w-]{4,2000})(?![A-Za-z0-9_])",
    re.ASCII,
)
_IN_WORD = re.compile("[A-Za-z0-9_-]")
_BEARER = re.compile(r"\s{1,3}([\w.~+/=-]{12,4000})", re.ASCII)
_NAMES = (
    "password", "passwd", "passphrase", "passwort", "passcode", "pwd", "kennwort", "mot de passe", "contraseña",
    "contrasena", "parola d'ordine", "hasło", "senha", "パスワード", "api key", "api-key", "api_key", "apikey",
    "api-schlüssel", "clé api", "clé d'api", "clave api", "clave de api", "chiave api", "apiキー", "secret", "token",
    "private key", "private_key", "private-key", "secretkey", "secret_key", "secret key", "secret-key",
)  # fmt: skip
"""Words before a secret, in lower case."""
_NAME_STEMS = (
    "pass",
    "pwd",
    "kennwort",
    "contras",
    "parola",
    "hasło",
    "senha",
    "パスワード",
    "key",
    "api",
    "secret",
    "token",
)
"""Parts of all words of `_NAMES`."""


@cache
def _names_with(stems: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in _NAMES if any(stem in name for stem in stems))


_NAMED = re.compile(
    r"[\"'`*]{0,3}(?:\s{0,2}(?:[:=：]|=>|\b(?:is|ist|lautet|war|est|es|è|to|auf)\b|は|を)\s{0,2})"
    r"[\"'`*“„「]{0,3}(?P<value>[^\s\"'`,;<>”」、。]{5,200})",
    re.IGNORECASE,
)
_WORD_ONLY = re.compile(r"[^\W\d_]+(?:[-/'][^\W\d_]+)*")
_REFERENCE = re.compile(
    r"\$(?:[{(]|env:|[A-Za-z_]+$)|\{\{?\w*\}?|%\w+%$|\[[\w.]+\]::|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+[(\[]|getenv\("
    r"|[A-Z]+(?:_[A-Z]+)+$",
    re.ASCII,
)
"""Code that stands for a secret: a variable, a call, a field of a template, a name to be replaced."""
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = "-----END "


_TOKEN_STARTS = (
    "sk-", "sk_", "pk-", "pk_", "rk-", "rk_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox",
    "akia", "asia", "aroa", "aida", "aiza", "ya29.", "hf_", "npm_", "pypi-", "dop_v1_", "sg.", "eyj",
)  # fmt: skip
_SCHEMES = ("bearer", "basic", "token")


def secrets(searched: SearchedText) -> Spans:
    """Yield API keys, tokens, private keys, passwords of URLs, and values that are named as a password or key.

    A named value needs a digit or a symbol: "my password is wrong" is not a secret.
    """
    text = searched.text
    for start in filter(searched.lowered.__contains__, _TOKEN_STARTS):
        for place in searched.places(start):
            match = None if _IN_WORD.match(text, place - 1) and place else _TOKEN.match(text, place)
            if match is not None:
                yield match.span()
    for scheme in filter(searched.lowered.__contains__, _SCHEMES):
        for place in searched.places(scheme):
            match = _BEARER.match(text, place + len(scheme))
            if match is not None and _DIGIT.search(match.group(1)) and not text[max(place - 1, 0) : place].isalnum():
                yield match.span(1)
    stems = tuple(filter(searched.lowered.__contains__, _NAME_STEMS))
    for name in _names_with(stems) if stems else ():
        yield from _named_secrets(searched, name)
    yield from _private_keys(text) if "PRIVATE KEY" in text else ()
    for _, place, rest in _urls(text):
        if (user := _USER.match(rest.group())) is not None:
            yield place, place + user.end() - 1


def _named_secrets(searched: SearchedText, name: str) -> Spans:
    for place in searched.places(name):
        match = _NAMED.match(searched.text, place + len(name))
        if match is not None:
            start, value = match.start("value"), match.group("value").rstrip(".?)]}*:")
            if len(value) >= 5 and not _WORD_ONLY.fullmatch(value) and not _REFERENCE.match(value):
                yield start, start + len(value)


def _private_keys(text: str) -> Spans:
    """Yield private keys; one without an end goes on to the end of the text."""
    key = _PRIVATE_KEY.search(text)
    while key is not None:
        end = text.find(_KEY_END, key.end())
        close = text.find("-----", end + len(_KEY_END)) + 5 if end >= 0 else 0
        stop = close if close >= 5 else len(text)
        yield key.start(), stop
        key = _PRIVATE_KEY.search(text, stop)


# --- numbers with checksums ------------------------------------------------------------------------------------------

_CARD_RUN = re.compile(r"(?<![.-])(?<!(?<!\d)0,)(?=\d(?:[ -]?\d){12})\d++(?:[ -]\d++)*+", re.ASCII)
_GOES_ON = re.compile(r"\w|\.\d", re.ASCII)
_GROUP = re.compile(r"\d+")
_ISSUER = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|3(?:0|6|8)\d{12}|35\d{14}"
    r"|6(?:011|4[4-9]|5|2)\d{12,17}|(?:50|5[6-9]|6[0-9])\d{11,17}"
)


def luhn(digits: str) -> bool:
    """Return True if the last digit is the check digit of Luhn's formula."""
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 + place % 2)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def cards(searched: SearchedText) -> Spans:
    """Yield numbers of payment cards: prefix and length of an issuer, and Luhn's check digit; in any groups."""
    text = searched.text
    for run in searched.matches(NUMBER_BEGINS, _CARD_RUN):
        groups, first = [match.span() for match in _GROUP.finditer(text, *run.span())], 0
        if _GOES_ON.match(text, run.end()):
            groups.pop()
        while first < len(groups):
            last = _card_end(text, groups, first)
            if last is not None:
                yield groups[first][0], groups[last][1]
            first = first + 1 if last is None else last + 1


def _card_end(text: str, groups: list[tuple[int, int]], first: int) -> int | None:
    """Return the last group of the card number that begins with a group; the longest one if there are several."""
    digits, found = "", None
    for place in range(first, len(groups)):
        start, end = groups[place]
        digits += text[start:end]
        if len(digits) > 19 or (end - start in (1, 2, 3, 7) and place == first):
            break  # no card number is written with so short a first group, many order numbers are
        if _ISSUER.fullmatch(digits) and len(set(digits)) > 1 and luhn(digits):
            found = place
    return found


IBAN_LENGTHS: Mapping[str, int] = {
    "AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28,
    "CH": 21, "CR": 22, "CY": 28, "CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18,
    "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18, "GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22,
    "IL": 23, "IQ": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LC": 32, "LI": 21, "LT": 20,
    "LU": 20, "LV": 21, "LY": 25, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18,
    "NO": 15, "PK": 24, "PL": 28, "PS": 29, "PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SC": 31, "SE": 24,
    "SI": 19, "SK": 24, "SM": 27, "ST": 25, "SV": 28, "TL": 23, "TN": 24, "TR": 26, "UA": 29, "VA": 22, "VG": 24,
    "XK": 20,
}  # fmt: skip
"""Length of an IBAN by country, of ISO 13616."""
_IBAN_DIGITS = re.compile(
    r"\d(?:(?<=(?<![A-Za-z0-9])[A-Za-z]{2}.)|(?<=(?<![A-Za-z0-9])[A-Za-z]{2}[ -].))\d(?=(?:[ -]?[A-Za-z0-9]){11})",
    re.ASCII,
)
"""Check digits of an IBAN after two letters, with at least eleven characters behind them."""
_IBAN_HEAD = re.compile(r"([A-Za-z]{2})[ -]?(\d\d)", re.ASCII)


@cache
def _iban_rest(length: int) -> re.Pattern[str]:
    """Return the pattern of what follows the country and check digits of an IBAN of this length."""
    return re.compile(rf"(?:[ -]?[A-Za-z0-9]){{{length - 4}}}(?!\w)", re.ASCII)


def ibans(searched: SearchedText) -> Spans:
    """Yield IBANs: country, length and check digits of ISO 7064."""
    text = searched.text
    for digits in _IBAN_DIGITS.finditer(text):
        head = _IBAN_HEAD.match(text, digits.start() - (2 if text[digits.start() - 1].isalpha() else 3))
        if head is None:
            continue
        length = IBAN_LENGTHS.get(head.group(1).upper())
        rest = None if length is None else _iban_rest(length).match(text, head.end())
        if rest is None:
            continue
        moved = rest.group().replace(" ", "").replace("-", "") + head.group(1) + head.group(2)
        if int("".join(str(int(character, 36)) for character in moved)) % 97 == 1:
            yield head.start(), rest.end()


# --- addresses of machines -------------------------------------------------------------------------------------------

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}(?![\w-]|\.\d)", re.ASCII)
_IPV4_BEGINS = beginning("0-9", _IPV4.pattern, before=r"(?<![\w.-].)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{3,39}(?:\.\d{1,3}){0,3}(?![\w:])", re.ASCII)
_DOTTED = re.compile(r"\d\.\d{1,3}\.\d{1,3}\.\d", re.ASCII)
_DIGIT = re.compile(r"\d", re.ASCII)
_PREFIX = re.compile(r"/(\d{1,3})(?![\d./])", re.ASCII)
_COLONS = re.compile("::|:[0-9A-Fa-f]{1,4}:[0-9A-Fa-f]{1,4}:")
_VERSION = re.compile(
    r"(?:\bv(?:er)?|versi(?:on|ón|one|ja|ji|ão)|バージョン|\bbuild|\brelease|\bfirmware"
    r"|\bsection|\babschnitt|\bkapitel|\bchapter|\bsección|\bsezione|[A-Za-z]/)[\s.:=はの'\"]{0,4}$",
    re.IGNORECASE,
)


def ips(searched: SearchedText) -> Spans:
    """Yield IP addresses of both versions, except loopback and unspecified ones, and numbers of versions."""
    text = searched.text
    for match in searched.matches(_IPV4_BEGINS, _IPV4) if _DOTTED.search(text) else ():
        if not _VERSION.search(text[max(match.start() - 16, 0) : match.start()]) and _is_host(text, match):
            yield match.span()
    for match in _IPV6.finditer(text) if _COLONS.search(text) else ():
        address = match.group()
        if ("::" in address or address.count(":") >= 6) and _DIGIT.search(address) and _is_host(text, match):
            yield match.span()


def _is_host(text: str, match: re.Match[str]) -> bool:
    """Return True if a match is the address of a machine, and not of a network such as 10.1.0.0/16."""
    try:
        address = ipaddress.ip_address(match.group())
    except ValueError:
        return False
    prefix = _PREFIX.match(text, match.end())
    if prefix is not None and int(prefix.group(1)) < address.max_prefixlen:
        network = ipaddress.ip_interface(f"{address}{prefix.group()}").network
        if network.network_address == address:
            return False
    return not (address.is_loopback or address.is_unspecified)


# --- telephone numbers -----------------------------------------------------------------------------------------------

_SEPARATED = r"(?:[ .\-/()]{0,3}\d)"
_ABROAD = re.compile(
    rf"(?:(?<![\w+])(?:\+ ?|\(\+)|(?<![\w.\-/+#])(?<!\d[ ,])00)[1-9]{_SEPARATED}{{6,14}}(?!\d)", re.ASCII
)
_CALLED = re.compile(
    r"phone|téléphone|whatsapp|電話|携帯|rufnummer|(?<![^\W\d_])(?:tel(?:\W|efon|éfono|efono)|tél|mobil|cell\b|cellulare|call"
    r"|fax|sms\b|handy|anruf|ruf(?:en|t)?\b|portable|appel|móvil|llám|chiam|komórk|dzwoń|zadzwo"
    r"|(?:my|meine|mon|mi|mio) n(?:umber|ummer|uméro|úmero|umero))"
)
_CALLED_HINTS = (
    "phone", "whatsapp", "電話", "携帯", "nummer", "tel", "tél", "mobil", "cell", "call", "fax", "sms", "handy", "ruf",
    "portable", "appel", "móvil", "llám", "chiam", "komórk", "dzwo", "number", "numéro", "número", "numero",
)  # fmt: skip
"""Parts of all words of `_CALLED`."""
_LOCAL_NUMBER = re.compile(rf"(?<![A-Za-z\d])(?<!\d\.)\d{_SEPARATED}{{6,14}}(?!\d)", re.ASCII)
_EDGE, _END = r"(?<![.\-/#])(?<!\d[:,])", r"(?![\w]|[\-/:.,]\d)"
_NATIONAL_FORM = re.compile(
    rf"{_EDGE}(?:"
    r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}"  # North America
    r"|0[1-9](?:[ .-]\d\d){4}|0[67]\d{8,9}"  # France; mobile numbers of France and Britain
    r"|01[5-7]\d{8,9}|0[789]0\d{8}"  # mobile numbers of Germany and Japan
    r"|\(0[1-9]\d{0,4}\)[ -]?\d{3,8}(?:[ -]\d{2,5}){0,2}"
    r"|0[1-9]\d{0,4}(?: ?[/-] ?| )\d{3,8}(?:[ -]\d{2,5}){0,2}"  # area code and number: Germany, Britain, Italy, Japan
    r"|[6789]\d\d(?:[ -]\d{3}){2}(?! \d{3})|[6789]\d\d(?:[ -]\d\d){3}|9\d \d{3} \d\d \d\d"  # Spain
    r"|3\d\d[ .-]\d{3}[ .-]?\d{3,4}|3\d\d[ .-]\d{6,7}"  # mobile numbers of Italy
    rf"){_END}",
    re.ASCII,
)
_OTHER_NUMBER = re.compile(
    r"order|ticket|invoice|bestell|auftrag|rechnung|kunden|artikel|commande|facture|pedido|factura|ordine|fattura|注文|伝票"
    r"|請求|zamówieni|faktur|\bref(?:\.|\b|eren|éren)|isbn|serial|sku|tracking|sendung|suivi|seguimiento|spedizione"
    r"|\bcase|\bid\b|#"
)
_OTHER_HINTS = (
    "order", "ticket", "invoice", "bestell", "auftrag", "rechnung", "kunden", "artikel", "commande", "factur", "pedido",
    "ordine", "fattura", "注文", "伝票", "請求", "zamówieni", "faktur", "ref", "réf", "isbn", "serial", "sku",
    "tracking", "sendung", "suivi", "seguimiento", "spedizione", "case", "id", "#",
)  # fmt: skip
"""Parts of all words of `_OTHER_NUMBER`, which are found faster."""
_AMOUNT = re.compile(r"\s?(?:[€$£¥%円]|EUR\b|USD\b|GBP\b|JPY\b|zł|k[mg]\b|[KMGT]i?B\b|bytes\b|euro)", re.IGNORECASE)


def phones(searched: SearchedText) -> Spans:
    """Yield telephone numbers: international ones, national ones after a word such as "call", and national shapes."""
    text = searched.text
    for match in searched.matches(NUMBER_BEGINS, _ABROAD):
        digits = only_digits(match.group()).removeprefix("00")
        if 8 <= len(digits) <= 15 and ("+" in match.group() or not _has_other_name(searched, match)):
            yield match.span()
    for match in searched.matches(NUMBER_BEGINS, _LOCAL_NUMBER):
        words = searched.words_before(match.start())
        if any(map(words.__contains__, _CALLED_HINTS)) and not _DATE.match(match.group()) and _CALLED.search(words):
            yield match.span()
    for match in searched.matches(NUMBER_BEGINS, _NATIONAL_FORM):
        digits = only_digits(match.group())
        if not 9 <= len(digits) <= 12 or _AMOUNT.match(text, match.end()):
            continue
        if not _has_other_name(searched, match):
            yield match.span()


def _has_other_name(searched: SearchedText, match: re.Match[str]) -> bool:
    """Return True if the words before a number say that it is another one, such as an order number."""
    words = searched.words_before(match.start())
    return any(map(words.__contains__, _OTHER_HINTS)) and _OTHER_NUMBER.search(words) is not None


_DATE = re.compile(r"(?:19|20)\d\d[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.](?:19|20)\d\d(?!\d)")


# --- all kinds ------------------------------------------------------------------------------------------------------

RULES: Mapping[str, Rule] = {
    "url": urls, "secret": secrets, "iban": ibans, "card": cards, "email": emails, "national_id": national_ids,
    "phone": phones, "ip": ips,
}  # fmt: skip
"""Rule of each kind; in a tie of two spans the earlier kind names the placeholder."""


NUMBERS = frozenset({"iban", "card", "national_id", "phone"})
"""Kinds that are found in digits: their rules do not read inside a UUID."""
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])")


_UUID_GROUPS = re.compile("-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-")
"""Middle of a UUID, which a search finds faster than its beginning."""


def without_uuids(searched: SearchedText) -> SearchedText:
    """Return a text of the same length with line breaks in place of UUIDs."""
    text = searched.text
    if _UUID_GROUPS.search(text) is None:
        return searched
    return SearchedText(_UUID.sub(lambda match: "\n" * len(match.group()), text))


_SECRET_HINTS = (
    "pass", "pwd", "key", "secret", "token", "bearer", "basic", "://", "authori", "kennwort", "contrase", "ordine",
    "senha", "clave", "chiave", " api", "k-", "k_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_",
    "github_pat_", "glpat-", "xox", "akia", "asia", "aroa", "aida", "aiza",
    "ya29.", "hf_", "npm_", "pypi-", "dop_v1_", "sg.", "eyj",
)  # fmt: skip
_FOREIGN_HINTS = ("hasło", "パスワード", "schlüssel", "clé", "キー")


def _may_hold_secret(searched: SearchedText) -> bool:
    return searched.has(_SECRET_HINTS) or (not searched.text.isascii() and searched.has(_FOREIGN_HINTS))


def _may_hold_ip(searched: SearchedText) -> bool:
    text = searched.text
    return _DOTTED.search(text) is not None or _COLONS.search(text) is not None


HINTS: Mapping[str, Callable[[SearchedText], bool]] = {
    "url": lambda searched: "://" in searched.text,
    "secret": _may_hold_secret,
    "iban": lambda searched: searched.has_digits,
    "card": lambda searched: searched.has_digits,
    "email": lambda searched: "@" in searched.text or _may_be_spelled(searched),
    "national_id": lambda searched: searched.has_digits or LETTERED.search(searched.text) is not None,
    "phone": lambda searched: searched.has_digits,
    "ip": _may_hold_ip,
}
"""Functions that return True for every text in which the rule of a kind finds something; much faster than the rule."""
