"""Rules that find national identifiers: numbers of persons with the check digits of ten countries."""

from __future__ import annotations

import re
from collections.abc import Callable

from accord.redaction.searched_text import NUMBER_BEGINS, SearchedText, Spans, only_digits


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


_BEFORE, _AFTER = r"(?<![\w.+-])", r"(?![\w]|[.-]\d)"
_NO_DECIMALS, _NO_FRACTION = r"(?!,\d)", r"(?<!\d,)"
"""Around numbers in plain digits: a comma may stand for a decimal point there. Elsewhere it ends a cell of a table."""
_NATIONAL: tuple[tuple[re.Pattern[str], Callable[[str], bool]], ...] = tuple(
    (re.compile(f"{pattern}{_AFTER}", re.ASCII), is_valid)
    for pattern, is_valid in (
        (r"(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}", _always),
        (rf"{_NO_FRACTION}[1-9]\d ?\d{{3}} ?\d{{3}} ?\d{{3}}{_NO_DECIMALS}", german_tax_id),
        (
            rf"{_NO_FRACTION}"
            r"[12] ?\d\d ?(?:0[1-9]|1[0-2]|[2-9]\d) ?(?:\d\d|2[AB]) ?\d{3} ?\d{3} ?\d\d"
            rf"{_NO_DECIMALS}",
            french_nir,
        ),
        (r"(?:\d{8}|[XYZxyz][ -]?\d{7})[ -]?[A-HJ-NP-TV-Za-hj-np-tv-z]", spanish_id),
        (r"\d{3}\.\d{3}\.\d{3}-\d\d", cpf),
        (r"756\.?\d{4}\.?\d{4}\.?\d\d", ahv),
    )
)
"""Pattern and check of a number: US, Germany, France, Spain, Brazil, Switzerland."""
_ANY_NATIONAL = re.compile(f"(?<![.-])(?:{'|'.join(pattern.pattern for pattern, _ in _NATIONAL)})", re.ASCII)
_BRITISH = re.compile(
    rf"{_BEFORE}(?!BG|GB|NK|KN|TN|NT|ZZ)[A-CEGHJ-PR-TW-Z][A-CEGHJ-NPR-TW-Z] ?\d\d ?\d\d ?\d\d ?[A-D]{_AFTER}",
    re.ASCII,
)
_ITALIAN = re.compile(rf"{_BEFORE}[A-Z]{{6}}\d\d[A-EHLMPRST]\d\d[A-Z]\d{{3}}[A-Z]{_AFTER}", re.IGNORECASE | re.ASCII)
_LETTERED_IDS = ((_BRITISH, 2), (_BRITISH, 3), (_ITALIAN, 6))
"""National insurance numbers and tax codes, with the number of characters before their first digit."""
_NAMED_IDS: tuple[tuple[re.Pattern[str], re.Pattern[str], Callable[[str], bool]], ...] = (
    (re.compile(r"\bssn|social security"), re.compile(r"(?<!\d)\d{3}[ -]?\d\d[ -]?\d{4}(?!\d)"), _always),
    (re.compile("pesel"), re.compile(r"(?<!\d)\d{11}(?!\d)"), pesel),
    (
        re.compile(r"my ?number|マイナンバー|個人番号"),
        re.compile(r"(?<!\d)\d{4}[ -]?\d{4}[ -]?\d{4}(?!\d)"),
        japanese_number,
    ),
)
"""Numbers whose check digit alone says too little: they need the name of the number before them."""
_NAMES_OF_IDS = ("ssn", "social security", "pesel", "my number", "mynumber", "マイナンバー", "個人番号")

LETTERED = re.compile(r"\d\d(?: ?\d\d ?\d\d ?[A-D]|[A-Za-z]\d\d[A-Za-z]\d\d\d[A-Za-z])", re.ASCII)


def national_ids(searched: SearchedText) -> Spans:
    """Yield national identifiers of ten countries, with the name of the number where its check digit is weak."""
    text = searched.text
    for first in searched.matches(NUMBER_BEGINS, _ANY_NATIONAL):
        for pattern, is_valid in _NATIONAL:
            match = pattern.match(text, first.start())
            if match is not None and is_valid(re.sub(r"[\W_]", "", match.group())):
                yield match.span()
    for digits in LETTERED.finditer(text):
        for pattern, letters in _LETTERED_IDS:
            match = pattern.match(text, max(digits.start() - letters, 0))
            if match is not None:
                yield match.span()
    for name, pattern, is_valid in _NAMED_IDS if searched.has(_NAMES_OF_IDS) else ():
        for match in searched.near_digits(pattern) if name.search(searched.lowered) else ():
            if is_valid(only_digits(match.group())) and name.search(searched.words_before(match.start())):
                yield match.span()
