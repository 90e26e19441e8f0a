"""Comments of ratings in three languages with planted failure modes, written as different people would write them.

A comment has one of eight main phrases of its mode, and with a probability of 0.7 one of six reasons. No word stands in
all phrases of a mode. Openings, topics and typing errors are drawn from lists that all modes share, and every tenth
comment is about nothing in particular.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MODES = ("invented", "long", "off-topic", "rude", "language", "repeats")
NONE = "none"
WEIGHTS = (0.27, 0.22, 0.16, 0.13, 0.11, 0.11)
"""Share of each mode among the comments that have one."""
UNRELATED = 0.1


class Phrases(NamedTuple):
    """Phrases of a language: main phrases and reasons by mode, and what all modes share."""

    mains: Mapping[str, Sequence[str]]
    reasons: Mapping[str, Sequence[str]]
    openings: Sequence[str]
    topics: Sequence[str]
    unrelated: Sequence[str]


class Comment(NamedTuple):
    """A comment and its mode; `NONE` for one about nothing in particular."""

    text: str
    mode: str


ENGLISH = Phrases(
    mains={
        "invented": (
            "it made up the delivery date", "this policy does not exist", "nothing in the documents supports that",
            "the number is invented", "hallucinated a discount", "claims things the site never said",
            "no source for this statement", "completely fabricated facts",
        ),
        "long": (
            "far too long", "so wordy", "it rambles on and on", "could have been two sentences", "a wall of text",
            "too much detail before the point", "way more paragraphs than needed", "needs to be shorter",
        ),
        "off-topic": (
            "did not answer my question", "talks about something else", "missed what the user wanted to know",
            "irrelevant reply", "ignored the actual problem", "the request was about one thing and it went elsewhere",
            "not what was asked", "evades the issue",
        ),
        "rude": (
            "the tone is rude", "sounds cold and annoyed", "no empathy at all", "quite condescending",
            "it blames the customer", "unfriendly wording", "never apologized", "sarcastic remark to an upset person",
        ),
        "language": (
            "answered in English to a French message", "wrong language", "switches to Spanish halfway",
            "the user writes German and gets something foreign", "half of it is not translated",
            "mixes two languages", "should have stayed in Italian", "untranslated phrases everywhere",
        ),
        "repeats": (
            "asks again for the order number", "repeats itself", "says the same sentence three times",
            "goes in circles", "forgot what was said earlier", "wants information it already has",
            "copies its previous message", "stuck in a loop",
        ),
    },
    reasons={
        "invented": (
            "I checked the documents and found nothing of the kind", "our policy says the opposite",
            "there has never been such a discount", "the source does not contain this number",
            "people would rely on false facts", "the site gives another delivery date",
        ),
        "long": (
            "nobody reads five paragraphs", "I stopped reading the text halfway down",
            "the point comes in the last sentences", "cut the detail", "a shorter version would do",
            "too wordy for a phone screen",
        ),
        "off-topic": (
            "the question is still open", "the user had to ask about the problem once more",
            "what they wanted to know is missing", "the reply deals with another request",
            "the actual issue stays unsolved", "irrelevant to what was asked",
        ),
        "rude": (
            "an upset customer deserves empathy", "one apology would have helped", "please use a friendly tone",
            "nobody wants to be blamed", "cold and condescending towards the person", "the wording would annoy me",
        ),
        "language": (
            "the French speaker cannot read English", "stay in the language of the message",
            "German in, German out", "phrases should be translated", "half Spanish and half something foreign",
            "the two languages confuse the reader",
        ),
        "repeats": (
            "the order number was given earlier", "it had the information already", "the same thing three times in a row",
            "the previous message said exactly this", "the loop only ended when I gave up", "it forgot the first turns",
        ),
    },
    openings=("honestly", "hmm", "in my view", "again", "sorry but", "as far as I can see", "pretty bad", "for me"),
    topics=(
        "in the chat about the refund", "in the hotel case", "with the insurance form", "when the parcel was late",
        "for the phone contract", "in the billing chat", "with the broken lamp", "about the train ticket",
    ),
    unrelated=(
        "see my note from yesterday", "not sure how to rate this one", "ok I guess", "between two and three",
        "would ask a colleague here", "second time I see this lamp", "the customer seems to joke", "skip",
        "rated quickly before lunch", "good start though", "hard to tell from the outside", "same as the one before",
        "no comment", "interesting case", "I like this assistant", "check with the team",
    ),
)  # fmt: skip

GERMAN = Phrases(
    mains={
        "invented": (
            "das Lieferdatum ist ausgedacht", "diese Regelung gibt es nicht", "steht so in keinem Dokument",
            "die Zahl ist frei erfunden", "halluziniert einen Rabatt", "behauptet Dinge, die nirgends belegt sind",
            "keine Quelle für diese Aussage", "komplett erfundene Fakten",
        ),
        "long": (
            "viel zu lang", "furchtbar ausschweifend", "schwafelt endlos", "zwei Sätze hätten gereicht",
            "eine Textwüste", "zu viele Einzelheiten vor dem Wesentlichen", "mehr Absätze als nötig",
            "müsste kürzer sein",
        ),
        "off-topic": (
            "beantwortet meine Frage nicht", "redet über etwas anderes", "geht am Anliegen vorbei",
            "Thema verfehlt", "ignoriert das eigentliche Problem", "weicht aus",
            "darum ging es gar nicht", "unpassende Auskunft",
        ),
        "rude": (
            "der Ton ist unhöflich", "klingt kalt und genervt", "kein bisschen Mitgefühl", "ziemlich herablassend",
            "gibt dem Kunden die Schuld", "unfreundlich formuliert", "keine Entschuldigung",
            "spöttische Bemerkung zu jemandem, der verärgert ist",
        ),
        "language": (
            "antwortet auf Englisch", "falsche Sprache", "wechselt mittendrin ins Spanische",
            "der Nutzer schreibt Deutsch und bekommt etwas Fremdsprachiges", "zur Hälfte nicht übersetzt",
            "mischt zwei Sprachen", "hätte Französisch bleiben sollen", "überall unübersetzte Wendungen",
        ),
        "repeats": (
            "fragt nochmal nach der Bestellnummer", "wiederholt sich ständig", "dreimal derselbe Satz",
            "dreht sich im Kreis", "hat vergessen, was vorher gesagt wurde", "will Angaben, die es schon hat",
            "kopiert die vorige Nachricht", "hängt in einer Schleife",
        ),
    },
    reasons={
        "invented": (
            "ich habe die Dokumente geprüft und nichts gefunden", "unsere Regelung sagt das Gegenteil",
            "so einen Rabatt gab es nie", "die Zahl steht nicht in der Quelle",
            "Leute verlassen sich auf falsche Fakten", "das belegte Lieferdatum ist ein anderes",
        ),
        "long": (
            "niemand liest fünf Absätze", "ich habe nach der Hälfte aufgehört zu lesen",
            "das Wesentliche kommt erst in den letzten Sätzen", "Einzelheiten streichen",
            "eine kürzere Fassung wäre besser", "für das Handy zu ausschweifend",
        ),
        "off-topic": (
            "die Frage ist weiter offen", "das Problem musste noch einmal geschildert werden",
            "was gewünscht war, fehlt", "die Auskunft betrifft ein anderes Anliegen",
            "das eigentliche Problem bleibt ungelöst", "passt nicht zum Thema",
        ),
        "rude": (
            "wer verärgert ist, braucht Mitgefühl", "eine Entschuldigung hätte geholfen",
            "bitte einen freundlichen Ton", "niemand will die Schuld bekommen",
            "kalt und herablassend gegenüber Menschen", "die Formulierung würde mich ärgern",
        ),
        "language": (
            "wer Französisch spricht, versteht kein Englisch", "bitte die Sprache der Nachricht behalten",
            "Deutsch gefragt, Deutsch geantwortet", "Wendungen gehören übersetzt",
            "halb Spanisch, halb Fremdsprachiges", "zwei Sprachen verwirren beim Lesen",
        ),
        "repeats": (
            "die Bestellnummer wurde vorher genannt", "die Angaben waren schon da", "dreimal hintereinander dasselbe",
            "in der vorigen Nachricht stand genau das", "die Schleife endete erst, als ich aufgab",
            "die ersten Runden sind vergessen",
        ),
    },
    openings=("ehrlich gesagt", "hm", "aus meiner Sicht", "schon wieder", "leider", "soweit ich sehe", "eher schlecht", "für mich"),
    topics=(
        "im Gespräch über die Erstattung", "beim Hotel", "mit dem Formular der Versicherung",
        "als das Paket zu spät kam", "beim Handyvertrag", "im Gespräch zur Rechnung", "bei der kaputten Lampe",
        "wegen der Fahrkarte",
    ),
    unrelated=(
        "siehe Notiz von gestern", "schwer einzuschätzen", "na ja, geht so", "zwischen zwei und drei",
        "hier würde ich eine Kollegin fragen", "die Lampe sehe ich zum zweiten Mal", "der Kunde scherzt wohl",
        "übersprungen", "schnell vor der Mittagspause bewertet", "guter Anfang immerhin", "von außen kaum zu beurteilen",
        "wie beim letzten", "ohne Kommentar", "spannender Fall", "ich mag diesen Assistenten", "mit dem Team klären",
    ),
)  # fmt: skip

SPANISH = Phrases(
    mains={
        "invented": (
            "se inventó la fecha de entrega", "esa norma no existe", "ningún documento lo respalda",
            "la cifra es inventada", "alucina un descuento", "afirma cosas que la web nunca dijo",
            "sin fuente para esta afirmación", "datos totalmente falsos",
        ),
        "long": (
            "demasiado largo", "muy palabrero", "divaga sin parar", "bastaban dos frases", "un muro de texto",
            "mil detalles antes de ir al grano", "más párrafos de lo necesario", "debería ser más breve",
        ),
        "off-topic": (
            "no contesta mi pregunta", "habla de otra cosa", "no entendió lo que se quería saber",
            "respuesta que no viene al caso", "ignora el problema real", "la consulta iba por un lado y salió por otro",
            "no es lo que se pidió", "evita el asunto",
        ),
        "rude": (
            "el tono es grosero", "suena frío y molesto", "cero empatía", "bastante condescendiente",
            "echa la culpa al cliente", "redacción antipática", "nunca se disculpó",
            "comentario sarcástico a una persona enfadada",
        ),
        "language": (
            "contesta en inglés a un mensaje en francés", "idioma equivocado", "cambia al alemán a mitad",
            "el usuario escribe español y recibe algo extranjero", "la mitad está sin traducir",
            "mezcla dos idiomas", "tenía que seguir en italiano", "expresiones sin traducción por todas partes",
        ),
        "repeats": (
            "vuelve a pedir el número de pedido", "se repite", "dice la misma frase tres veces", "da vueltas en círculo",
            "olvidó lo dicho antes", "quiere información que ya tiene", "copia su mensaje anterior",
            "atascado en un bucle",
        ),
    },
    reasons={
        "invented": (
            "revisé los documentos y no hay nada así", "nuestra norma dice lo contrario",
            "jamás hubo tal descuento", "la fuente no contiene esa cifra", "la gente se fiaría de datos falsos",
            "la web da otra fecha de entrega",
        ),
        "long": (
            "nadie lee cinco párrafos", "dejé de leer el texto a la mitad", "lo importante llega en las últimas frases",
            "hay que recortar detalles", "una versión breve sería mejor", "palabrero para una pantalla de móvil",
        ),
        "off-topic": (
            "la pregunta sigue abierta", "hubo que explicar el problema otra vez", "falta lo que querían saber",
            "la respuesta trata otra consulta", "el asunto real queda sin resolver", "no tiene que ver con lo pedido",
        ),
        "rude": (
            "un cliente enfadado merece empatía", "una disculpa habría ayudado", "por favor un tono amable",
            "a nadie le gusta que le echen la culpa", "frío y condescendiente con la persona",
            "esa redacción me molestaría",
        ),
        "language": (
            "quien habla francés no entiende inglés", "hay que seguir en el idioma del mensaje",
            "si escriben español, se contesta español", "las expresiones deben traducirse",
            "mitad alemán y mitad algo extranjero", "dos idiomas confunden al lector",
        ),
        "repeats": (
            "el número de pedido se dio antes", "ya tenía la información", "lo mismo tres veces seguidas",
            "el mensaje anterior decía justo eso", "el bucle acabó cuando me rendí", "olvidó los primeros turnos",
        ),
    },
    openings=("sinceramente", "hmm", "a mi parecer", "de nuevo", "lo siento pero", "por lo que veo", "bastante mal", "para mí"),
    topics=(
        "en el chat del reembolso", "en el caso del hotel", "con el formulario del seguro", "cuando el paquete llegó tarde",
        "en el contrato del teléfono", "en el chat de la factura", "con la lámpara rota", "sobre el billete de tren",
    ),
    unrelated=(
        "ver mi nota de ayer", "no sé cómo puntuar este", "bueno, pasable", "entre dos y tres",
        "aquí preguntaría a un colega", "segunda vez que veo esta lámpara", "el cliente parece bromear", "saltar",
        "puntuado deprisa antes de comer", "buen comienzo al menos", "difícil de juzgar desde fuera", "igual que el de antes",
        "sin comentarios", "caso interesante", "me gusta este asistente", "consultar con el equipo",
    ),
)  # fmt: skip

LANGUAGES: Mapping[str, Phrases] = {"en": ENGLISH, "de": GERMAN, "es": SPANISH}


def planted_comments(language: str, count: int, seed: int = 0) -> list[Comment]:
    """Return comments with their modes; equal arguments give equal comments."""
    rng, phrases = random.Random(f"{language} {count} {seed}"), LANGUAGES[language]
    return [_comment(rng, phrases) for _ in range(count)]


def _comment(rng: random.Random, phrases: Phrases) -> Comment:
    if rng.random() < UNRELATED:
        mode, parts = NONE, [rng.choice(phrases.unrelated)]
    else:
        [mode] = rng.choices(MODES, WEIGHTS)
        parts = [rng.choice(phrases.mains[mode])]
        if rng.random() < 0.7:
            parts.append(rng.choice(phrases.reasons[mode]))
            if rng.random() < 0.3:
                parts.reverse()
    if rng.random() < 0.3:
        parts[0] += f" {rng.choice(phrases.topics)}"
    text = rng.choice((", ", ". ", "; ", " - ")).join(parts)
    if rng.random() < 0.25:
        text = f"{rng.choice(phrases.openings)}, {text}"
    return Comment(_mistyped(rng, text[0].upper() + text[1:] if rng.random() < 0.6 else text), mode)


def _mistyped(rng: random.Random, text: str) -> str:
    """Return a text in which every fortieth letter or so is swapped with the next one."""
    letters = list(text)
    for place in range(len(letters) - 1):
        if rng.random() < 1 / 40 and letters[place].isalpha() and letters[place + 1].isalpha():
            letters[place], letters[place + 1] = letters[place + 1], letters[place]
    return "".join(letters)
