"""Rules that find personal data in a text: patterns, checksums and words of context, for each kind.

A rule is a function of a normalized text (`normalized`) that yields spans. Every rule is linear in the length of the
text: repetitions are bounded, and separators never match digits. Validated numbers need no context; a telephone number
in national form needs the shape of one country, or a word such as "call" before it.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache

Spans = Iterator[tuple[int, int]]
Rule = Callable[[str], Spans]

# --- normalization --------------------------------------------------------------------------------------------------

_INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]")
_SPACES = "\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63"


@cache
def _folded() -> dict[int, str]:
    """Return full-width characters, spaces, dashes and digits of other scripts with their ASCII character."""
    digits = {code: unicodedata.decimal(chr(code), None) for code in range(0x660, 0x1FBFA)}
    table = {code: str(digit) for code, digit in digits.items() if digit is not None}
    table |= {0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)}
    return table | dict.fromkeys(map(ord, _SPACES), " ") | dict.fromkeys(map(ord, _DASHES), "-")


@cache
def _odd() -> re.Pattern[str]:
    return re.compile(f"[{''.join(map(re.escape, map(chr, _folded())))}]|{_INVISIBLE.pattern}")


def normalized(text: str) -> tuple[str, list[int] | None]:
    """Return a text with ASCII digits, spaces and dashes, without invisible characters.

    Returns:
        The text, and the place in the original of each character; None if every character kept its place.
    """
    if text.isascii() or _odd().search(text) is None:
        return text, None
    folded = text.translate(_folded())
    if _INVISIBLE.search(folded) is None:
        return folded, None
    places = [place for place, character in enumerate(folded) if not _INVISIBLE.match(character)]
    return "".join([folded[place] for place in places]), places


# --- e-mail addresses and URLs ---------------------------------------------------------------------------------------

_LETTERS = "A-Za-z0-9\u00c0-\u04ff"
_LOCAL = re.compile(rf"[{_LETTERS}](?:[{_LETTERS}._%+'-]{{0,63}})$")
_LABEL = rf"[{_LETTERS}](?:[{_LETTERS}-]{{0,61}}[{_LETTERS}])?"
_DOMAIN = re.compile(rf"(?:{_LABEL}\.){{1,6}}[A-Za-z\u00c0-\u04ff]{{2,24}}(?![{_LETTERS}])")
_SPELLED = re.compile(
    rf"(?<![{_LETTERS}._%+-])[{_LETTERS}._%+-]{{1,64}} ?[\[(] ?(?:at|ät|arroba|arobase|chiocciola) ?[\])] ?"
    rf"[{_LETTERS}-]{{1,63}}(?: ?(?:\.|[\[(] ?(?:dot|punkt|point|punto) ?[\])]) ?[{_LETTERS}-]{{1,63}}){{1,4}}",
    re.IGNORECASE,
)


def emails(text: str) -> Spans:
    """Yield e-mail addresses, also those written with `(at)`."""
    at = text.find("@")
    while at >= 0:
        local, domain = _LOCAL.search(text[max(at - 64, 0) : at]), _DOMAIN.match(text[at + 1 : at + 256])
        if local is not None and domain is not None and local.group() != "git":
            yield at - len(local.group()), at + 1 + domain.end()
        at = text.find("@", at + 1)
    if ")" in text or "]" in text:
        yield from (match.span() for match in _SPELLED.finditer(text))


_URL = re.compile(r"(?<![a-z0-9+.-])[a-z][a-z0-9+.-]{1,20}://[^\s<>\"'`]{1,2000}", re.IGNORECASE)
_USER = re.compile(r"[^/\s@:]{0,200}:[^/\s@]{1,300}@")
_SECRET_QUERY = re.compile(
    r"[?&#;][^=&#;\s]{0,40}(?:key|token|secret|passw|pwd|signature|\bsig\b|auth|credential|session)[^=&#;\s]{0,20}=[^&#\s]",
    re.IGNORECASE,
)


def urls(text: str) -> Spans:
    """Yield URLs with a user and password, or with a query parameter whose name says that it holds a secret."""
    for match in _URL.finditer(text) if "://" in text else ():
        rest = match.group().partition("://")[2]
        if _USER.match(rest) or _SECRET_QUERY.search(rest):
            yield match.start(), match.start() + len(match.group().rstrip(".,;:!?)]}"))


# --- secrets ---------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"(?<![A-Za-z0-9_-])(?:"
    r"(?:sk|pk|rk)[-_](?=[A-Za-z_-]{0,40}\d)[A-Za-z0-9_-]{16,200}|gh[pousr]_[A-Za-z0-9]{30,255}|github_pat_\w{20,255}"
    r"|glpat-[\w-]{16,64}|xox[abeoprs]-[\w-]{10,250}|(?:AKIA|ASIA|AROA|AIDA)[A-Z0-9]{16}|AIza[\w-]{30,45}"
    r"|ya29\.[\w-]{20,500}|hf_[A-Za-z0-9]{30,60}|npm_[A-Za-z0-9]{36}|pypi-[\w-]{50,250}|dop_v1_[0-9a-f]{64}"
    r"|SG\.[\w-]{16,32}\.[\w-]{16,64}|eyJ[\w-]{8,4000}\.eyJ[\w-]{8,8000}\.[\w-]{4,2000})(?![A-Za-z0-9_])",
    re.ASCII,
)
_BEARER = re.compile(r"\b(?:Bearer|Basic|Token)\s{1,3}([\w.~+/=-]{12,4000})", re.ASCII | re.IGNORECASE)
_NAMED = re.compile(
    r"(?:pass(?:word|wd|phrase|wort|code)|\bpwd|kennwort|mot de passe|contrase(?:ñ|n)a|parola d.ordine|hasło"
    r"|senha|パスワード|api[ _-]?(?:key|schlüssel)|clé (?:d.)?api|clave (?:de )?api"
    r"|chiave api|APIキー|secret(?:[ _-]?key)?|(?:access|auth|refresh)[ _-]?token|\btoken|private[ _-]?key)"
    r"[\"'`*]{0,3}(?P<sign>\s{0,2}(?:[:=：]|=>|\b(?:is|ist|lautet|war|est|es|è|to|auf)\b|は|を)\s{0,2})"
    r"[\"'`*“„「]{0,3}(?P<value>[^\s\"'`,;<>”」、。]{5,200})",
    re.IGNORECASE,
)
_WORD_ONLY = re.compile(r"[^\W\d_]+(?:[-/'][^\W\d_]+)*")
_PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = "-----END "


def secrets(text: str) -> Spans:
    """Yield API keys, tokens, private keys, and values that are named as a password or key.

    A named value needs a digit or a symbol: "my password is wrong" is no secret.
    """
    yield from (match.span() for match in _TOKEN.finditer(text))
    yield from (match.span(1) for match in _BEARER.finditer(text) if re.search(r"\d", match.group(1)))
    for match in _NAMED.finditer(text):
        start, value = match.start("value"), match.group("value").rstrip(".?)]}*:")
        if len(value) >= 5 and not _WORD_ONLY.fullmatch(value):
            yield start, start + len(value)
    key = _PRIVATE_KEY.search(text)
    while key is not None:
        end = text.find(_KEY_END, key.end())
        close = text.find("-----", end + len(_KEY_END)) + 5 if end >= 0 else 0
        stop = close if close >= 5 else len(text)
        yield key.start(), stop
        key = _PRIVATE_KEY.search(text, stop)
    for match in _URL.finditer(text) if "://" in text else ():
        place = match.group().index("://") + 3
        if (user := _USER.match(match.group()[place:])) is not None:
            yield match.start() + place, match.start() + place + user.end() - 1


# --- numbers with checksums ------------------------------------------------------------------------------------------

_CARD_RUN = re.compile(r"(?<![\w.,+-])\d(?:[ -]?\d){12,}(?![\w]|[.,]\d)", re.ASCII)
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


def _digits(text: str) -> str:
    return re.sub(r"\D", "", text)


def cards(text: str) -> Spans:
    """Yield numbers of payment cards: prefix and length of an issuer, and Luhn's check digit; in any groups."""
    for run in _CARD_RUN.finditer(text):
        groups, first = [match.span() for match in _GROUP.finditer(text, *run.span())], 0
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
_IBAN_HEAD = re.compile(r"(?<![A-Za-z0-9])([A-Za-z]{2})[ -]?(\d{2})")
_WORD = re.compile(r"\w", re.ASCII)
_IBAN_NEXT = re.compile(r"[ -]?([A-Za-z0-9])")


def ibans(text: str) -> Spans:
    """Yield IBANs: country, length and check digits of ISO 7064."""
    for head in _IBAN_HEAD.finditer(text):
        length, place = IBAN_LENGTHS.get(head.group(1).upper()), head.end()
        characters = []
        while length is not None and len(characters) < length - 4:
            following = _IBAN_NEXT.match(text, place)
            if following is None:
                break
            characters.append(following.group(1))
            place = following.end()
        if length is None or len(characters) != length - 4 or _WORD.match(text, place):
            continue
        moved = "".join(characters) + head.group(1) + head.group(2)
        if int("".join(str(int(character, 36)) for character in moved)) % 97 == 1:
            yield head.start(), place


# --- addresses of machines -------------------------------------------------------------------------------------------

_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_IPV4 = re.compile(rf"(?<![\w.-])(?:{_OCTET}\.){{3}}{_OCTET}(?![\w-]|\.\d)", re.ASCII)
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:]{3,39}(?:\.\d{1,3}){0,3}(?![\w:])", re.ASCII)
_VERSION = re.compile(
    r"(?:\bv(?:er(?:si(?:on|ón|one|ja|ji|ão))?)?|バージョン|\bbuild|\brelease|\bfirmware"
    r"|\bsection|\babschnitt|\bkapitel|\bchapter|\bsección|\bsezione|[A-Za-z]/)[\s.:=はの]{0,3}$",
    re.IGNORECASE,
)


def ips(text: str) -> Spans:
    """Yield IP addresses of both versions, except loopback and unspecified ones, and numbers of versions."""
    for match in _IPV4.finditer(text) if "." in text else ():
        if not _VERSION.search(text[max(match.start() - 16, 0) : match.start()]) and _is_host(match.group()):
            yield match.span()
    for match in _IPV6.finditer(text) if ":" in text else ():
        if re.search(r"\d", match.group()) and _is_host(match.group()):
            yield match.span()


def _is_host(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified)


# --- national identifiers --------------------------------------------------------------------------------------------


def german_tax_id(digits: str) -> bool:
    """Return True if 11 digits are a German tax ID: one digit occurs two or three times, and a check digit."""
    counts = sorted(digits[:10].count(digit) for digit in set(digits[:10]))
    if digits[0] == "0" or counts[-1] not in (2, 3) or (len(counts) > 1 and counts[-2] > 1):
        return False
    product = 10
    for digit in digits[:10]:
        total = (int(digit) + product) % 10 or 10
        product = total * 2 % 11
    return (11 - product) % 10 == int(digits[10])


def french_nir(digits: str) -> bool:
    """Return True if 15 characters are a French social security number with its key."""
    body = digits[:13].upper().replace("2A", "19").replace("2B", "18")
    return body.isdigit() and 97 - int(body) % 97 == int(digits[13:])


def spanish_id(letters: str) -> bool:
    """Return True if the last letter of a DNI or NIE is its check letter."""
    number = letters[:-1].upper().replace("X", "0").replace("Y", "1").replace("Z", "2")
    return "TRWAGMYFPDXBNJZSQVHLCKE"[int(number) % 23] == letters[-1].upper()


def pesel(digits: str) -> bool:
    """Return True if 11 digits are a Polish PESEL: a date and a check digit."""
    month, day = int(digits[2:4]) % 20, int(digits[4:6])
    weighted = sum(int(digit) * weight for digit, weight in zip(digits, (1, 3, 7, 9) * 3, strict=False))
    return 1 <= month <= 12 and 1 <= day <= 31 and (weighted - int(digits[10]) * 7 + int(digits[10])) % 10 == 0


def japanese_number(digits: str) -> bool:
    """Return True if the last of 12 digits is the check digit of My Number."""
    total = sum(int(digits[10 - n]) * (n + 2 if n < 6 else n - 4) for n in range(11))
    rest = total % 11
    return int(digits[11]) == (0 if rest <= 1 else 11 - rest)


def cpf(digits: str) -> bool:
    """Return True if the last two of 11 digits are the check digits of a Brazilian CPF."""
    for length in (9, 10):
        total = sum(int(digit) * (length + 1 - place) for place, digit in enumerate(digits[:length]))
        if total * 10 % 11 % 10 != int(digits[length]):
            return False
    return len(set(digits)) > 1


def ahv(digits: str) -> bool:
    """Return True if the last of 13 digits is the check digit of a Swiss AHV number, as of EAN-13."""
    return sum(int(digit) * (1 + 2 * (place % 2)) for place, digit in enumerate(digits)) % 10 == 0


def _always(_: str) -> bool:
    return True


_BEFORE, _AFTER = r"(?<![\w.,+-])", r"(?![\w]|[.,-]\d)"
_NATIONAL: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(rf"{_BEFORE}(?!000|666|9)\d{{3}}-(?!00)\d\d-(?!0000)\d{{4}}{_AFTER}", re.ASCII), _always),  # US social security
    (
        re.compile(rf"{_BEFORE}(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]{_AFTER}", re.ASCII),
        _always,
    ),  # British national insurance
    (re.compile(rf"{_BEFORE}[1-9]\d[ ]?\d{{3}}[ ]?\d{{3}}[ ]?\d{{3}}{_AFTER}", re.ASCII), german_tax_id),
    (
        re.compile(rf"{_BEFORE}[12][ ]?\d\d[ ]?(?:0[1-9]|1[0-2]|[2-9]\d)[ ]?(?:\d\d|2[AB])[ ]?\d{{3}}[ ]?\d{{3}}[ ]?\d\d{_AFTER}", re.ASCII),
        french_nir,
    ),
    (re.compile(rf"{_BEFORE}(?:\d{{8}}|[XYZ][ -]?\d{{7}})[ -]?[A-HJ-NP-TV-Z]{_AFTER}", re.IGNORECASE | re.ASCII), spanish_id),
    (re.compile(rf"{_BEFORE}[A-Z]{{6}}\d\d[A-EHLMPRST]\d\d[A-Z]\d{{3}}[A-Z]{_AFTER}", re.IGNORECASE | re.ASCII), _always),  # Italian
    (re.compile(rf"{_BEFORE}\d{{3}}\.\d{{3}}\.\d{{3}}-\d\d{_AFTER}", re.ASCII), cpf),
    (re.compile(rf"{_BEFORE}756\.?\d{{4}}\.?\d{{4}}\.?\d\d{_AFTER}", re.ASCII), ahv),
)
_NAMED_ID: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(r"(?:\bSSN|social security)[^\d\n]{0,24}(\d{3}[ -]?\d\d[ -]?\d{4})(?!\d)", re.IGNORECASE), _always),
    (re.compile(r"PESEL[^\d\n]{0,24}(\d{11})(?!\d)", re.IGNORECASE), pesel),
    (
        re.compile(r"(?:my ?number|マイナンバー|個人番号)[^\d\n]{0,24}(\d{4}[ -]?\d{4}[ -]?\d{4})(?!\d)", re.IGNORECASE),
        japanese_number,
    ),
)  # fmt: skip
"""Numbers whose check digit alone says too little: they need the name of the number before them."""


def national_ids(text: str) -> Spans:
    """Yield national identifiers of the US, Britain, Germany, France, Spain, Italy, Brazil, Switzerland, Poland, Japan."""
    for pattern, is_valid in _NATIONAL:
        for match in pattern.finditer(text):
            if is_valid(re.sub(r"[\W_]", "", match.group())):
                yield match.span()
    for pattern, is_valid in _NAMED_ID:
        for match in pattern.finditer(text):
            if is_valid(_digits(match.group(1))):
                yield match.span(1)


# --- telephone numbers -----------------------------------------------------------------------------------------------

_SEPARATED = r"(?:[ .\-/()]{0,3}\d)"
_ABROAD = re.compile(rf"(?:(?<![\w+])(?:\+ ?|\(\+)|(?<![\w.\-/+,#])00)[1-9]{_SEPARATED}{{6,14}}(?!\d)", re.ASCII)
_CALLED = re.compile(
    r"(?:phone|\btel(?:[\W_]|efon|éfono|efono|éphone)|\btél|\bmobil|\bcell|\bcall|\bfax|whatsapp|\bsms\b|\bhandy|\banruf|\bruf(?:en|nummer)"
    r"|\bportable|\bappel|\bmóvil|\bllám|\bcellulare|\bchiam|電話|携帯|\bkomórk|\bdzwoń|\bzadzwo"
    r"|\b(?:my|meine?|mon|mi|mio) n(?:umber|ummer|uméro|úmero|umero))"
    rf"[^\d\n+(]{{0,30}}(\+?\(?\d{_SEPARATED}{{6,14}})(?!\d)",
    re.IGNORECASE,
)
_EDGE, _END = r"(?<![\w.\-/+,#])(?<!\d:)", r"(?![\w]|[\-/:.,]\d)"
_NATIONAL_FORM = re.compile(
    rf"{_EDGE}(?:"
    r"(?:1[ .-])?(?:\([2-9]\d\d\) ?|[2-9]\d\d[ .-])[2-9]\d\d[ .-]\d{4}"  # North America
    r"|0[1-9](?:[ .-]\d\d){4}|0[67]\d{8,9}"  # France; mobile numbers of France and Britain
    r"|01[5-7]\d{8,9}|0[789]0\d{8}"  # mobile numbers of Germany and Japan
    r"|\(0[1-9]\d{0,4}\)[ -]?\d{3,8}(?:[ -]\d{2,5}){0,2}"
    r"|0[1-9]\d{0,4}(?: ?[/-] ?| )\d{3,8}(?:[ -]\d{2,5}){0,2}"  # area code and number: Germany, Britain, Italy, Japan
    r"|[6789]\d\d(?:[ -]\d{3}){2}|[6789]\d\d(?:[ -]\d\d){3}|9\d \d{3} \d\d \d\d"  # Spain
    r"|3\d\d[ .-]\d{3}[ .-]?\d{3,4}|3\d\d[ .-]\d{6,7}"  # mobile numbers of Italy
    rf"){_END}",
    re.ASCII,
)
_OTHER_NUMBER = re.compile(
    r"(?:order|ticket|invoice|bestell|auftrag|rechnung|kunden|artikel|commande|facture|pedido|factura|ordine|fattura"
    r"|注文|伝票|請求|zamówieni|faktur|\bref(?:\.|\b|eren|éren)|isbn|serial|sku|tracking|sendung|suivi|seguimiento|spedizione|\bcase|\bid\b|#)"
    r"[^\d\n]{0,24}$",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"\s?(?:[€$£¥%円]|EUR\b|USD\b|GBP\b|JPY\b|zł|k[mg]\b|[KMGT]i?B\b|bytes\b|euro)", re.IGNORECASE)


def phones(text: str) -> Spans:
    """Yield telephone numbers: international ones, national ones after a word such as "call", and national shapes."""
    for match in _ABROAD.finditer(text):
        digits = _digits(match.group())
        if 8 <= len(digits.removeprefix("00")) <= 15 and ("+" in match.group() or not _has_other_name(text, match)):
            yield match.span()
    for match in _CALLED.finditer(text):
        if 7 <= len(_digits(match.group(1))) <= 15 and not _looks_like_date(match.group(1)):
            yield match.span(1)
    for match in _NATIONAL_FORM.finditer(text):
        digits = _digits(match.group())
        if not 9 <= len(digits) <= 12 or _AMOUNT.match(text, match.end()):
            continue
        if not _has_other_name(text, match):
            yield match.span()


def _has_other_name(text: str, match: re.Match[str]) -> bool:
    """Return True if the words before a number say that it is another one, such as that of an order."""
    return _OTHER_NUMBER.search(text[max(match.start() - 40, 0) : match.start()]) is not None


_DATE = re.compile(r"(?:19|20)\d\d[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.](?:19|20)\d\d(?!\d)")


def _looks_like_date(text: str) -> bool:
    return _DATE.match(text) is not None


# --- all kinds ------------------------------------------------------------------------------------------------------

RULES: Mapping[str, Rule] = {
    "url": urls, "secret": secrets, "iban": ibans, "card": cards, "email": emails, "national_id": national_ids,
    "phone": phones, "ip": ips,
}  # fmt: skip
"""Rule of each kind; in a tie of two spans the earlier kind names the placeholder."""

_DIGITS = r"\d(?:[^\d\n]{0,3}\d){6}"
_HINTS: Mapping[str, str] = {
    "url": "://",
    "secret": r"(?i:pass|pwd|kennwort|contrase|parola|hasło|senha|パスワ|key|schlüssel|clé|clave|chiave|キー|secret|token"
    r"|authori|bearer|basic|sk[-_]|pk[-_]|rk[-_]|gh[pousr]_|glpat|xox|AKIA|ASIA|AROA|AIDA|AIza|ya29|hf_|npm_|pypi-|dop_|SG\.|eyJ|://)",
    "iban": r"[A-Za-z]{2}[ -]?\d\d[ -]?\w",
    "card": _DIGITS,
    "email": r"@|(?i:[ta]t? ?[)\]])|(?i:arroba|arobase|chiocciola)",
    "national_id": rf"{_DIGITS}|[A-Za-z]{{2}} ?\d\d ?\d\d ?\d\d ?[A-D]|(?i:[a-z]\d\d[a-z]\d\d[a-z]\d{{3}})",
    "phone": _DIGITS,
    "ip": r"\d\.\d{1,3}\.\d|:[0-9A-Fa-f]{0,4}:",
}  # fmt: skip


def hints_of(kinds: tuple[str, ...]) -> list[tuple[str, re.Pattern[str]]]:
    """Return a pattern for each kind that every text with this kind matches; it takes a fraction of the rule's time."""
    return [(kind, re.compile(_HINTS[kind])) for kind in kinds]
