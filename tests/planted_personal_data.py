"""Seeded conversations with planted personal data, and numbers that look like it, in six languages."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

LANGUAGES = ("en", "de", "fr", "es", "it", "ja")


class Planted(NamedTuple):
    """A text and the personal data in it: start, end and kind of each piece."""

    text: str
    spans: tuple[tuple[int, int, str], ...]


def _digits(rng: random.Random, count: int) -> str:
    return "".join(rng.choice(string.digits) for _ in range(count))


def _luhn_digit(body: str) -> str:
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 - place % 2)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def email(rng: random.Random, language: str) -> str:
    """Return an address with a name of the language."""
    names = {
        "en": ["john.smith", "mary_jones", "o'neil", "Sam+shop"], "de": ["jürgen.müller", "k.schmidt-lang", "Anna"],
        "fr": ["zoe.lefevre", "jean-luc", "H.Dubois"], "es": ["jose.garcia", "maria_lopez99", "Nuria"],
        "it": ["luca.rossi", "g.bianchi", "Chiara"], "ja": ["tanaka.ichiro", "y-suzuki", "hanako88"],
    }  # fmt: skip
    ends = {"en": "co.uk", "de": "de", "fr": "fr", "es": "es", "it": "it", "ja": "co.jp"}
    domain = rng.choice([f"example.{ends[language]}", "mail.example.com", "my-company.io", "uni.example.org"])
    return f"{rng.choice(names[language])}{rng.choice(['', _digits(rng, 2)])}@{domain}"


def phone(rng: random.Random, language: str) -> str:
    """Return a telephone number as people of the country write it, in national or international form."""

    def d(count: int) -> str:
        return _digits(rng, count)

    first = rng.choice("23456789")
    forms: dict[str, list[str]] = {
        "en": [f"({first}{rng.choice('0123')}5) {rng.choice('2345')}{d(2)}-{d(4)}", f"{first}05-{rng.choice('2345')}55-0{d(3)}", f"+1 {first}12 5{d(2)} {d(4)}",
               f"020 7946 0{d(3)}", f"07700 900{d(3)}", f"+44 7700 900{d(3)}"],
        "de": [f"030 {rng.choice('2345')}{d(6)}", f"089/{rng.choice('2345')}{d(5)}", f"0151 {rng.choice('2345')}{d(7)}", f"+49 171 {d(7)}", f"0049 40 {d(6)}",
               f"(0221) {rng.choice('2345')}{d(5)}", f"+49 (0)30 {d(7)}"],
        "fr": [f"0{rng.choice('12345')} {d(2)} {d(2)} {d(2)} {d(2)}", f"06.{d(2)}.{d(2)}.{d(2)}.{d(2)}", f"+33 6 {d(2)} {d(2)} {d(2)} {d(2)}", f"07{d(8)}"],
        "es": [f"6{d(2)} {d(3)} {d(3)}", f"91 {d(3)} {d(2)} {d(2)}", f"+34 6{d(2)} {d(2)} {d(2)} {d(2)}", f"9{rng.choice('1356')}{d(1)} {d(2)} {d(2)} {d(2)}"],
        "it": [f"3{rng.choice('234')}{d(1)} {d(3)} {d(4)}", f"06 {d(4)} {d(4)}", f"+39 34{d(1)} {d(7)}", f"02-{d(7)}"],
        "ja": [f"090-{d(4)}-{d(4)}", f"03-{rng.choice('3456')}{d(3)}-{d(4)}", f"+81 90 {d(4)} {d(4)}", f"0120-{d(3)}-{d(3)}", f"080{d(8)}"],
    }  # fmt: skip
    return rng.choice(forms[language])


def card(rng: random.Random, language: str) -> str:
    """Return the number of a payment card with a valid check digit."""
    prefix, length = rng.choice([("4", 16), ("51", 16), ("55", 16), ("37", 15), ("6011", 16), ("36", 14)])
    body = prefix + _digits(rng, length - 1 - len(prefix))
    number = body + _luhn_digit(body)
    sign = rng.choice(["", " ", "-"])
    cuts = (4, 10) if length in (14, 15) else (4, 8, 12)
    return sign.join(number[start:end] for start, end in zip((0, *cuts), (*cuts, length), strict=True))


def iban(rng: random.Random, language: str) -> str:
    """Return an IBAN with valid check digits."""
    country, shape = {
        "en": ("GB", "AAAA" + "0" * 14), "de": ("DE", "0" * 18), "fr": ("FR", "0" * 23), "es": ("ES", "0" * 20),
        "it": ("IT", "A" + "0" * 22), "ja": ("CH", "0" * 17),
    }[language]  # fmt: skip
    body = "".join(rng.choice(string.ascii_uppercase) if each == "A" else rng.choice(string.digits) for each in shape)
    number = int("".join(str(int(each, 36)) for each in f"{body}{country}00"))
    whole = f"{country}{98 - number % 97:02d}{body}"
    return rng.choice([whole, " ".join(whole[at : at + 4] for at in range(0, len(whole), 4))])


def ip(rng: random.Random, language: str) -> str:
    """Return an IP address of either version."""
    if rng.random() < 0.3:
        return ":".join(["2001", "db8", *(f"{rng.randrange(1, 65535):x}" for _ in range(6))])
    return ".".join([str(rng.choice([10, 81, 172, 192, 203])), *(str(rng.randrange(1, 255)) for _ in range(3))])


def secret(rng: random.Random, language: str) -> str:
    """Return an API key, a token or a password that its sentence names."""
    letters = string.ascii_letters + string.digits
    word = "".join(rng.choice(letters) for _ in range(36))
    return rng.choice([f"sk-{word[:20]}{rng.choice(string.digits)}", f"ghp_{word}", f"AKIA{word[:16].upper()}", f"AIza{word[:35]}",
                       f"eyJhbGciOiJIUzI1NiJ9.eyJ{word[:20]}.{word[20:]}"])  # fmt: skip


def password(rng: random.Random, language: str) -> str:
    """Return a password that people type."""
    return (
        rng.choice(["Sommer", "hunter", "Dragon", "qwerty"])
        + _digits(rng, rng.choice([2, 4]))
        + rng.choice(["", "!", "$x"])
    )


def url(rng: random.Random, language: str) -> str:
    """Return a URL with a user and password, or a token."""
    word = "".join(rng.choice(string.ascii_lowercase + string.digits) for _ in range(14))
    return rng.choice(
        [f"https://admin:{word}@files.example.com/a", f"https://api.example.com/v1/orders?access_token={word}"]
    )


def national_id(rng: random.Random, language: str) -> str:
    """Return a national identifier with valid check digits."""
    if language == "en":
        return f"{rng.randrange(100, 665)}-{rng.randrange(1, 99):02d}-{rng.randrange(1, 9999):04d}"
    if language == "de":
        rest = rng.sample("0123456789", 9)
        rest.insert(rng.randrange(1, 10), rest[rng.randrange(9)])
        if rest[0] == "0":
            rest[0], rest[1] = rest[1], rest[0]
        if rest[0] == "0":
            return national_id(rng, language)
        product = 10
        for each in rest:
            total = (int(each) + product) % 10 or 10
            product = total * 2 % 11
        number = "".join(rest) + str((11 - product) % 10)
        return rng.choice([number, f"{number[:2]} {number[2:5]} {number[5:8]} {number[8:]}"])
    if language == "fr":
        body = f"{rng.choice('12')}{rng.randrange(40, 99)}{rng.randrange(1, 13):02d}{rng.randrange(10, 95)}{_digits(rng, 6)}"
        whole = f"{body}{97 - int(body) % 97:02d}"
        return rng.choice(
            [whole, f"{whole[0]} {whole[1:3]} {whole[3:5]} {whole[5:7]} {whole[7:10]} {whole[10:13]} {whole[13:]}"]
        )
    if language == "es":
        number = _digits(rng, 8)
        return f"{number}{rng.choice(['', '-'])}{'TRWAGMYFPDXBNJZSQVHLCKE'[int(number) % 23]}"
    if language == "it":
        letters = "".join(rng.choice(string.ascii_uppercase) for _ in range(6))
        return f"{letters}{_digits(rng, 2)}{rng.choice('ABCDEHLMPRST')}{rng.randrange(1, 31):02d}{rng.choice('ABCDEFGHL')}{_digits(rng, 3)}{rng.choice(string.ascii_uppercase)}"
    body = _digits(rng, 11)
    left = sum(int(body[10 - n]) * (n + 2 if n < 6 else n - 4) for n in range(11)) % 11
    return f"{body[:4]} {body[4:8]} {body[8:]}{0 if left <= 1 else 11 - left}"


MAKERS: dict[str, Callable[[random.Random, str], str]] = {
    "email": email, "phone": phone, "card": card, "iban": iban, "ip": ip, "secret": secret, "password": password,
    "url": url, "national_id": national_id,
}  # fmt: skip

SENTENCES: dict[str, dict[str, list[str]]] = {
    "en": {
        "email": ["You can write to {}.", "My address is {}, thanks!", "Send it to <{}> please"],
        "phone": ["Please call me at {}.", "You can reach me under {} after six.", "It's {}, ask for Sam."],
        "card": ["I paid with {} yesterday.", "The card {} was declined."], "iban": ["Refund it to {}, please.", "Account: {}"],
        "ip": ["I log in from {} usually.", "The server at {} does not answer."],
        "secret": ["I use the key {} for this.", "Here it is: {}"], "password": ["My password is {} and it fails.", "password: {}"],
        "url": ["It happens on {} only.", "See {}"], "national_id": ["My social security number is {}.", "SSN {} on the form."],
    },
    "de": {
        "email": ["Schreiben Sie an {}.", "Meine Adresse lautet {}, danke!"],
        "phone": ["Rufen Sie mich an: {}.", "Sie erreichen mich unter {} ab sechs.", "Es ist die {}, fragen Sie nach Anna."],
        "card": ["Ich habe mit {} bezahlt.", "Die Karte {} wurde abgelehnt."], "iban": ["Bitte auf {} überweisen.", "Konto: {}"],
        "ip": ["Ich komme von {} aus ins Netz.", "Der Server {} antwortet nicht."],
        "secret": ["Ich nutze den Schlüssel {} dafür.", "Hier ist er: {}"], "password": ["Mein Passwort ist {} und geht nicht.", "Kennwort: {}"],
        "url": ["Es passiert nur auf {} bei mir.", "Siehe {}"], "national_id": ["Meine Steuer-ID ist {}.", "Steuernummer {} im Formular."],
    },
    "fr": {
        "email": ["Écrivez à {}.", "Mon adresse est {}, merci !"],
        "phone": ["Appelez-moi au {}.", "On peut me joindre au {} après six heures.", "C'est le {}, demandez Zoé."],
        "card": ["J'ai payé avec {} hier.", "La carte {} est refusée."], "iban": ["Remboursez sur {}, merci.", "Compte : {}"],
        "ip": ["Je me connecte depuis {} d'habitude.", "Le serveur {} ne répond pas."],
        "secret": ["J'utilise la clé {} pour cela.", "La voici : {}"], "password": ["Mon mot de passe est {} et il échoue.", "Mot de passe : {}"],
        "url": ["Cela arrive seulement sur {} ici.", "Voir {}"], "national_id": ["Mon numéro de sécurité sociale est {}.", "NIR {} sur le formulaire."],
    },
    "es": {
        "email": ["Escríbame a {}.", "Mi correo es {}, gracias."],
        "phone": ["Llámame al {}.", "Me encuentra en el {} desde las seis.", "Es el {}, pregunte por Nuria."],
        "card": ["Pagué con {} ayer.", "La tarjeta {} fue rechazada."], "iban": ["Devuélvalo a {}, por favor.", "Cuenta: {}"],
        "ip": ["Me conecto desde {} siempre.", "El servidor {} no responde."],
        "secret": ["Uso la clave {} para esto.", "Aquí está: {}"], "password": ["Mi contraseña es {} y falla.", "Contraseña: {}"],
        "url": ["Ocurre solo en {} aquí.", "Vea {}"], "national_id": ["Mi DNI es {}.", "El documento {} en el formulario."],
    },
    "it": {
        "email": ["Scrivimi a {}.", "Il mio indirizzo è {}, grazie!"],
        "phone": ["Chiamami al {}.", "Mi trova al {} dopo le sei.", "È il {}, chieda di Luca."],
        "card": ["Ho pagato con {} ieri.", "La carta {} è stata rifiutata."], "iban": ["Rimborsate su {}, grazie.", "Conto: {}"],
        "ip": ["Mi collego da {} di solito.", "Il server {} non risponde."],
        "secret": ["Uso la chiave {} per questo.", "Eccola: {}"], "password": ["La mia password è {} e non va.", "Password: {}"],
        "url": ["Succede solo su {} da me.", "Vedi {}"], "national_id": ["Il mio codice fiscale è {}.", "CF {} nel modulo."],
    },
    "ja": {
        "email": ["{}に送ってください。", "メールは{}です。"],
        "phone": ["電話は{}です。", "{}までお願いします。", "連絡先：{}、田中宛て"],
        "card": ["昨日{}で払いました。", "カード{}が使えません。"], "iban": ["{}に返金してください。", "口座：{}"],
        "ip": ["いつも{}から接続します。", "サーバー{}が応答しません。"],
        "secret": ["キーは{}です。", "これです：{}"], "password": ["パスワードは{}です。", "パスワード：{}"],
        "url": ["{} だけで起きます。", "参照 {}"], "national_id": ["マイナンバーは{}です。", "個人番号 {} を書きました。"],
    },
}  # fmt: skip

_WORDS = {
    "en": ("Order {}", "the ticket {}", "version {}", "it costs {}", "on {}", "the book {}", "commit {}", "at {}", "my password is wrong, {}"),
    "de": ("Bestellung {}", "das Ticket {}", "Version {}", "es kostet {}", "am {}", "das Buch {}", "Commit {}", "um {}", "mein Passwort ist falsch, {}"),
    "fr": ("La commande {}", "le ticket {}", "version {}", "cela coûte {}", "le {}", "le livre {}", "le commit {}", "à {}", "mon mot de passe est faux, {}"),
    "es": ("El pedido {}", "el ticket {}", "versión {}", "cuesta {}", "el {}", "el libro {}", "el commit {}", "a las {}", "mi contraseña es incorrecta, {}"),
    "it": ("L'ordine {}", "il ticket {}", "versione {}", "costa {}", "il {}", "il libro {}", "il commit {}", "alle {}", "la mia password è sbagliata, {}"),
    "ja": ("注文{}", "チケット{}", "バージョン{}", "価格は{}", "日付{}", "本{}", "コミット{}", "時刻{}", "パスワードは違います、{}"),
}  # fmt: skip


def trap(rng: random.Random, language: str) -> str:
    """Return a sentence with a number that is no personal data."""
    order, ticket, version, price, day, book, commit, time, wrong = _WORDS[language]
    hexed = "".join(rng.choice("0123456789abcdef") for _ in range(40))
    year, month, date = rng.randrange(2015, 2030), rng.randrange(1, 13), rng.randrange(1, 29)
    isbn = f"978-{rng.randrange(10)}-{_digits(rng, 2)}-{_digits(rng, 6)}-{rng.randrange(10)}"
    amount = rng.choice(
        [
            f"{rng.randrange(1, 999)}.{_digits(rng, 3)},{_digits(rng, 2)} €",
            f"${rng.randrange(1, 99)},{_digits(rng, 3)}.{_digits(rng, 2)}",
            f"{rng.randrange(1, 9)} {_digits(rng, 3)} {_digits(rng, 3)} EUR",
        ]
    )
    dates = [
        f"{year}-{month:02d}-{date:02d}",
        f"{date:02d}.{month:02d}.{year}",
        f"{date:02d}/{month:02d}/{year}",
        f"{date:02d}-{month:02d}-{year}",
    ]
    clock = f"{rng.randrange(24):02d}:{rng.randrange(60):02d}:{rng.randrange(60):02d}"
    text = rng.choice([
        order.format(_digits(rng, rng.choice([8, 10, 12]))), order.format(f"{_digits(rng, 3)}-{_digits(rng, 7)}-{_digits(rng, 7)}"),
        ticket.format(f"#{_digits(rng, 7)}"), version.format(f" {rng.randrange(1, 20)}.{rng.randrange(30)}.{rng.randrange(30)}.{rng.randrange(30)}"),
        version.format(f" {rng.randrange(1, 20)}.{rng.randrange(30)}.{rng.randrange(30)}"), price.format(amount),
        day.format(rng.choice(dates)), day.format(f"{rng.choice(dates)} {clock}"), book.format(isbn), commit.format(hexed),
        commit.format(f"{hexed[:8]}-{hexed[8:12]}-{hexed[12:16]}-{hexed[16:20]}-{hexed[20:32]}"), time.format(clock),
        time.format(f"{clock[:5]} - {clock[:2]}:59"), wrong.format("..."), order.format(f"{_digits(rng, 16)}"),
    ])  # fmt: skip
    return text + ("。" if language == "ja" else ".")


def planted(rng: random.Random, language: str) -> Planted:
    """Return a message with one or two pieces of personal data among numbers that look like some."""
    text, spans = "", []
    for kind in rng.sample(list(MAKERS), rng.choice([1, 2])):
        if rng.random() < 0.6:
            text += trap(rng, language) + " "
        before, _, after = rng.choice(SENTENCES[language][kind]).partition("{}")
        value = MAKERS[kind](rng, language)
        start = len(text) + len(before)
        spans.append((start, start + len(value), "secret" if kind == "password" else kind))
        text += before + value + after + " "
    return Planted((text + trap(rng, language)).strip(), tuple(spans))


_MARKED = re.compile(r"⟦([a-z_]+):(.*?)⟧")


def as_written() -> list[tuple[str, Planted]]:
    """Return language and text of `data/personal_data_as_written.txt`: signatures, logs, invoices, and lookalikes."""
    lines = Path(__file__).with_name("data").joinpath("personal_data_as_written.txt").read_text(encoding="utf-8")
    cases = list[tuple[str, Planted]]()
    for line in lines.splitlines():
        language, _, marked = line.replace("\\n", "\n").partition("|")
        text, place, spans = "", 0, list[tuple[int, int, str]]()
        for mark in _MARKED.finditer(marked):
            text += marked[place : mark.start()]
            spans.append((len(text), len(text) + len(mark.group(2)), mark.group(1)))
            text, place = text + mark.group(2), mark.end()
        cases.append((language, Planted(text + marked[place:], tuple(spans))))
    return cases
