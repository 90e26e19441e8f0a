"""User accounts and forms: personal links, browser sessions, roles, form tokens, and the single user of a machine.

A personal link holds a random key; the store keeps only its digest. The linked page asks for confirmation, so that a
mail client that fetches the link does not start a session.

Without accounts, a server that only this machine can reach has a single user with the role admin. This user signs in
with a one-time link that `accord serve` and `accord users link` print, because other accounts on the machine can reach
the server too.
"""

from __future__ import annotations

import base64
import getpass
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

from accord.edges import BadInput, UnknownName
from accord.live import Refused, is_local, media_type
from accord.store import ADJUDICATED, ONE_TIME_LINK, ROLES, SINGLE_USER, Conflict, Role, Studies, UserAccount

if TYPE_CHECKING:
    from starlette.requests import Request

COOKIE = "accord_session"
SESSION_DAYS, LINK_DAYS = 30, 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}", re.ASCII)
_RIGHTS: Mapping[Role, int] = {role: rank for rank, role in enumerate(ROLES)}


def add_person(studies: Studies, name: str, role: str = "annotator", returns: bool = False) -> str:
    """Add a user, and return the key of the personal link, which is not stored and cannot be shown again.

    With `returns`, the user may have the name, and the answers, of a former user.

    Raises:
        BadInput: The name is invalid, reserved, in use, or belongs to a former user.
        UnknownName: The role does not exist.
    """
    return add_people(studies, {name: new_key()}, role, returns)[name]


def add_people(studies: Studies, keys: Mapping[str, str], role: str, returns: bool = False) -> dict[str, str]:
    """Add users with the keys of their personal links, all or none, and return the keys by name.

    Users who have these keys already were added by the same form, sent twice; they stay as they are.

    Raises:
        BadInput: A name is invalid or in use, or, without `returns`, belongs to a former user. No user is added.
        UnknownName: The role does not exist.
    """
    alike = {name.lower(): name for name in keys}
    for name in keys:
        if not NAME.fullmatch(name):
            raise BadInput(
                f"user name: got {name[:60]!r}, allowed: 1 to 40 letters a-z, digits, '.', '_' and '-', starting with "
                f"a letter or a digit{_nobody_added(keys)}"
            )
        if name.lower() == ADJUDICATED:
            raise BadInput(
                f"the name {name!r} is reserved for adjudicated answers; choose another{_nobody_added(keys)}"
            )
        if alike[name.lower()] != name:
            raise BadInput(f"the names {name!r} and {alike[name.lower()]!r} differ only in case{_nobody_added(keys)}")
    known, digests = _role(role), {name: digest_of(key) for name, key in keys.items()}
    found = (studies.accounts.of(digest) for digest in digests.values())
    if [None if account is None else account.name for account in found] != list(keys):
        try:
            studies.accounts.add_all(digests, known, returns)
        except Conflict as error:
            raise Conflict(f"{error}{_nobody_added(keys)}") from None
    return dict(keys)


def _nobody_added(names: Collection[str]) -> str:
    return ". Nobody was added" if len(names) > 1 else ""


def new_link(studies: Studies, name: str, key: str = "") -> str:
    """Replace the key of a user's personal link by a given or random one, and end all sessions of the old link.

    Raises:
        BadInput: There is no such user.
    """
    key = key or new_key()
    studies.accounts.change(name, digest=digest_of(key))
    return key


def change_role(studies: Studies, name: str, role: str) -> None:
    """Change the role of a user.

    Raises:
        BadInput: There is no such user.
        UnknownName: There is no such role.
    """
    studies.accounts.change(name, role=_role(role))


def _role(role: str) -> Role:
    if role not in ROLES:
        raise UnknownName("role", role, ROLES)
    return role


@dataclass(frozen=True)
class Visitor:
    """A signed-in user, with the session key for form tokens."""

    person: UserAccount
    key: str

    def may(self, role: Role) -> bool:
        """Return True if the user has this role, or one that includes it."""
        return _RIGHTS[self.person.role] >= _RIGHTS[role]

    def check_may(self, role: Role) -> None:
        """Check that the user has a role.

        Raises:
            Refused: 403 without the role.
        """
        if not self.may(role):
            raise Refused(403, f"this page needs the role {role}; yours is {self.person.role}")


def local_sign_in_link(studies: Studies, site: str, page: str = "/") -> str:
    """Return a new one-time link that signs the single user of this machine in.

    Args:
        studies: Studies of the store; any process that can write to the store can create links.
        site: Address of the workbench, such as `http://127.0.0.1:8700`.
        page: Page that the link opens.

    Raises:
        BadInput: There are user accounts, which use personal links.
    """
    if people := studies.accounts.list_users():
        raise BadInput(
            f"this project has user accounts, which sign in by personal links. accord users link {people[0].name} "
            "prints a new one"
        )
    query = "" if page == "/" else f"?page={quote(page)}"
    return f"{site.rstrip('/')}/in/{_start_session(studies, ONE_TIME_LINK, LINK_DAYS)}{query}"


def _start_session(studies: Studies, person: str, days: int, key: str = "") -> str:
    """Add a session or a one-time link to the store, and return its key."""
    key, until = key or new_key(), datetime.now(UTC) + timedelta(days=days)
    studies.accounts.start_session(digest_of(key), person, until.isoformat(timespec="milliseconds"))
    return key


class Accounts:
    """User accounts, or the single user of this machine if there are none."""

    def __init__(self, studies: Studies, exposure: str = "") -> None:
        """Check that accounts exist if other machines can reach the server.

        Args:
            studies: Studies of the store with the accounts.
            exposure: Option that makes the server reachable from other machines; empty if none does.

        Raises:
            BadInput: Other machines can reach the server, but accounts do not exist yet.
        """
        self.studies = studies
        self._is_single_user = not studies.accounts.list_users()
        if self._is_single_user and exposure:
            raise BadInput(
                f"{exposure} makes the workbench reachable from other machines, and no user account protects it. Add "
                f"one: accord users add NAME --role lead. Or serve this machine alone, without {exposure}"
            )
        self._single_user = UserAccount(_own_name(), "admin", "")

    @property
    def is_single_user(self) -> bool:
        """True until the first account exists; it does not become True again."""
        if self._is_single_user and self.studies.accounts.list_users():
            self._is_single_user = False
        return self._is_single_user

    def visitor(self, request: Request) -> Visitor | None:
        """Return the signed-in user of a browser, or `None`."""
        key = parse_key(request.cookies.get(COOKIE, ""))
        if key is None:
            return None
        if not self.is_single_user:
            person = self.studies.accounts.session(digest_of(key))
        elif is_local(request.scope) and self.studies.accounts.is_single_user(digest_of(key)):
            person = self._single_user
        else:
            person = None
        return None if person is None else Visitor(person, key)

    def account_of_link(self, key: str) -> UserAccount | None:
        """Return the account of a personal link."""
        valid = parse_key(key)
        return None if valid is None else self.studies.accounts.of(digest_of(valid))

    def sign_in(self, person: UserAccount, key: str = "") -> str:
        """Start a session of an account with a given or random key, and return the key for the cookie."""
        return _start_session(self.studies, person.name, SESSION_DAYS, key)

    def sign_in_by_one_time_link(self, key: str, request: Request) -> str | None:
        """Use up a one-time link, and return the key for the cookie; `None` if the link is not valid."""
        valid = parse_key(key)
        if valid is None or not self.is_single_user or not is_local(request.scope):
            return None
        is_valid = self.studies.accounts.use_link(digest_of(valid))
        return _start_session(self.studies, SINGLE_USER, SESSION_DAYS) if is_valid else None

    def sign_out(self, visitor: Visitor) -> None:
        """End a session."""
        self.studies.accounts.end_session(digest_of(visitor.key))


def _own_name() -> str:
    """Return the name of the operating system user, as saved with answers."""
    try:
        name = re.sub(r"[^A-Za-z0-9._-]", "-", getpass.getuser())[:40]
    except (OSError, KeyError):
        name = ""
    return name if NAME.fullmatch(name) and name.lower() != ADJUDICATED else "me"


# --- forms -----------------------------------------------------------------------------------------------------------


FORM, JSON = "application/x-www-form-urlencoded", "application/json"
MAX_FIELDS = 400
TOKEN = "form"
"""Form field with the token; scripts send it in the header `X-Accord-Form`."""
_KEY = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)


def new_key() -> str:
    """Return a random key of 256 bits, for a session or a personal link."""
    return secrets.token_urlsafe(32)


def parse_key(text: str) -> str | None:
    """Return the text if it has the format of a key."""
    return text if _KEY.fullmatch(text) else None


def digest_of(key: str) -> str:
    """Return the digest of a key; only the digest is stored."""
    return hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()


def form_token(key: str, *purpose: object) -> str:
    """Return the token of a form, which other sites cannot compute: an HMAC of its purpose with the session key."""
    message = "\n".join(map(str, purpose))
    return hmac.new(key.encode(), message.encode("utf-8", "replace"), hashlib.sha256).hexdigest()


def masked_token(token: str) -> str:
    """Return a token under a random mask, different in each page.

    The size of a compressed page then says nothing about the token (BREACH; Gluck, Harris and Prado, 2013).

    >>> plain = form_token("key")
    >>> masked_token(plain) != masked_token(plain), check_token(masked_token(plain), "key")
    (True, None)
    """
    mask = secrets.token_bytes(len(token) // 2)
    return (mask + bytes(a ^ b for a, b in zip(mask, bytes.fromhex(token), strict=True))).hex()


def _unmasked(token: str) -> str:
    try:
        content = bytes.fromhex(token)
    except ValueError:
        return token
    half = len(content) // 2
    return bytes(a ^ b for a, b in zip(content[:half], content[half:], strict=False)).hex() if half == 32 else token


def key_of_form(key: str, once: str, name: str) -> str:
    """Return the key of a personal link: the same each time that the same form is sent, and random for other forms.

    Args:
        key: Session key of the sender.
        once: Random key that the page put into the form; a form without one gets a random key.
        name: User of the link.
    """
    if parse_key(once) is None:
        return new_key()
    digest = bytes.fromhex(form_token(key, "link", once, name))
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def check_token(token: str, key: str, *purpose: object) -> None:
    """Check the token of a form.

    Raises:
        Refused: 403 for a wrong token.
    """
    if not hmac.compare_digest(_unmasked(token).encode("utf-8", "replace"), form_token(key, *purpose).encode()):
        raise Refused(403, "the form does not belong to your current session; reload the page and submit it again")


def check_same_origin(headers: Mapping[str, str], scheme: str) -> None:
    """Check that a form comes from a page of this server, by the headers `Origin` or `Referer`.

    Args:
        headers: Headers of the request.
        scheme: `http` or `https`; behind a TLS proxy the value of `X-Forwarded-Proto`.

    Raises:
        Refused: 403 for another origin.
    """
    source = headers.get("origin") or headers.get("referer") or ""
    try:
        split = urlsplit(source)
    except ValueError:
        split = urlsplit("")
    if split.scheme != scheme or split.netloc.lower() != headers.get("host", "").lower():
        raise Refused(
            403, "the form was not sent from a page of this server; open the page on this server and submit it again"
        )


_LINE_BREAK = re.compile("\r\n|[\r\x85\u2028\u2029]")


def parse_form(body: bytes, content_type: str) -> dict[str, str]:
    """Return the fields of a form. Every line break in a value becomes a line feed, because browsers send CRLF.

    Raises:
        BadInput: The body is not a form, or a field occurs twice.
    """
    if media_type(content_type) != FORM:
        raise BadInput(f"content type: got {content_type[:60]!r}, allowed: {FORM}")
    try:
        fields = parse_qs(body.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict")
    except ValueError:
        raise BadInput("the form cannot be parsed; reload the page and submit it again") from None
    duplicate = next((name for name, values in fields.items() if len(values) > 1), None)
    if duplicate is not None:
        raise BadInput(f"the form has the field {duplicate[:60]!r} twice; reload the page")
    return {name: _LINE_BREAK.sub("\n", values[0]) for name, values in fields.items()}


def parse_json(body: bytes, content_type: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        BadInput: The body is not a JSON object.
    """
    if media_type(content_type) != JSON:
        raise BadInput(f"content type: got {content_type[:60]!r}, allowed: {JSON}")
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        raise BadInput("the body is not valid JSON; reload the page and submit it again") from None
    if not isinstance(value, dict):
        raise BadInput(f"the body must be a JSON object, got {type(value).__name__}")
    return value


def _reject_constant(text: str) -> Any:
    raise ValueError(f"{text} is not a number")
