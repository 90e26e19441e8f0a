"""Trust in project folders, and in the addresses, the keys and the code that their files name.

| question | answer |
|---|---|
| may a project file above the working folder be used? | `check_ownership` |
| may the code that a project names be run? | `check_code` |
| may a request go to an address that the project names? | `check_address`, after `note_addresses` |
| may a request use a key of the project's `.env`? | `check_address`, after `set_variable` |
| which folders and addresses has the user accepted? | `trusted.json` in the user's configuration folder |

A project file above the working folder must belong to the user or to root, and no other account may be able to write
to it or to its folder; the sticky bit of a folder such as `/tmp` makes no difference. In the working folder itself, a
file of another account is accepted if it belongs to the owner of the folder, and no other account can write there. The
user can accept a folder (`accord trust FOLDER`) or all folders (`ACCORD_TRUST=1`).

Addresses are compared by scheme, host and port. Loopback addresses and the user's own endpoint (`OPENAI_BASE_URL` of
the environment, or the default) need no confirmation, unless a key of the project is sent there: the owner of a key can
read the requests. Projects that the user created need no confirmation.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from accord.edges.errors import AccordError, BadInput, NotSent
from accord.edges.input_limits import MB, read_json_file
from accord.edges.output_paths import write_atomically

TRUST_VARIABLE = "ACCORD_TRUST"
CONFIGURATION_VARIABLE = "ACCORD_CONFIG"
TRUSTED_FILE = "trusted.json"
UNREADABLE = "an address that cannot be read"
_FOLDERS, _ADDRESSES, _CODE = "folders", "addresses", "code"
_FILES, _FILE = "file://", re.compile(r"(?:sqlite(?:\+\w+)?|file):///", re.IGNORECASE)
_unconfirmed: dict[str, Path] = {}
"""Addresses that need a confirmation, with the project folder whose files name them."""
_file_variables: dict[str, tuple[str, Path]] = {}
"""Variables that a `.env` file has set in this process, with hashes of their values and the project folder."""
_temporary: set[Path] = set()
"""Folders of projects that this process has written and removes."""
_asking: list[Callable[[str], bool]] = []
"""Function that asks the user at the terminal; empty without a terminal."""


# --- the user's record ------------------------------------------------------------------------------------------------


def trusted_file() -> Path:
    """Return the path of the record: `trusted.json` in `ACCORD_CONFIG` or the user's configuration folder."""
    folder = os.environ.get(CONFIGURATION_VARIABLE)
    if folder:
        return Path(folder) / TRUSTED_FILE
    from platformdirs import user_config_path  # imported here, because few commands need it

    return user_config_path("accord", appauthor=False) / TRUSTED_FILE


def _record() -> dict[str, Any]:
    """Return the record: trusted `folders`, and confirmed `addresses` and `code` by folder.

    Raises:
        BadInput: The file is damaged.
    """
    path = trusted_file()
    try:
        content = read_json_file(path, MB)
        folders, addresses, code = content.get(_FOLDERS, []), content.get(_ADDRESSES, {}), content.get(_CODE, {})
        confirmed = [*sum(addresses.values(), []), *sum(code.values(), [])]
        is_valid = all(isinstance(each, str) for each in [*folders, *addresses, *code, *confirmed])
    except FileNotFoundError:
        return {_FOLDERS: [], _ADDRESSES: {}, _CODE: {}}
    except (AttributeError, TypeError):
        is_valid = False
    if not is_valid:
        raise BadInput(f"{path} is damaged; remove it, and trust your folders again: accord trust FOLDER")
    return {_FOLDERS: list(folders), _ADDRESSES: dict(addresses), _CODE: dict(code)}


def _save(record: dict[str, Any]) -> None:
    write_atomically(trusted_file(), json.dumps(record, indent=1, ensure_ascii=False) + "\n")


def trust_folder(folder: Path, trusted: bool = True) -> None:
    """Record that the user trusts a project folder with all its addresses and code; `trusted=False` withdraws it.

    Raises:
        BadInput: The record is damaged.
        OSError: The record cannot be written.
    """
    record, name = _record(), str(folder.resolve())
    others = [each for each in record[_FOLDERS] if each != name]
    if not trusted:
        record[_ADDRESSES].pop(name, None)
        record[_CODE].pop(name, None)
    _save({**record, _FOLDERS: [*others, name] if trusted else others})


def trust_in_process(folder: Path) -> None:
    """Trust a temporary project that this process has written, without a line in the user's record."""
    _temporary.add(folder.resolve())


def is_trusted(folder: Path) -> bool:
    """Return True if the user trusts a project folder.

    Raises:
        BadInput: The record is damaged.
    """
    if os.environ.get(TRUST_VARIABLE) == "1" or folder.resolve() in _temporary:
        return True
    return str(folder.resolve()) in _record()[_FOLDERS]


# --- owners of files --------------------------------------------------------------------------------------------------


def check_ownership(file: Path) -> None:
    """Check that no account except the user and root could have written a file of a project.

    Windows has no such owners and modes, so files are not checked there.

    Raises:
        BadInput: Another account could have written it, and the user does not trust its folder.
    """
    if sys.platform == "win32":
        return
    folder = file.parent.resolve()
    try:
        reason = _foreign(file, folder)
    except OSError as error:
        raise BadInput(f"cannot read {file}: {error.strerror}") from None
    if reason and not is_trusted(folder):
        raise BadInput(
            f"{file} is not used, because {reason}. If you know who wrote it: accord trust {folder}, or set "
            f"{TRUST_VARIABLE}=1"
        )


def _foreign(file: Path, folder: Path) -> str:
    """Return the reason why another account could have written a file; an empty text if there is none."""
    owner, about = file.stat().st_uid, folder.stat()
    is_shared = _is_writable_by_others(about)
    if folder == Path.cwd():
        if owner in _own_accounts() or (owner == about.st_uid and not is_shared):
            return ""
        return "another account owns it, and others can write to its folder" if is_shared else "another account owns it"
    target = file.resolve().parent.stat()  # of a link
    if not {owner, about.st_uid, target.st_uid} <= _own_accounts():
        return "another account owns it or its folder, and it is not in the working folder"
    if _is_writable_by_others(file.stat()):
        return "others can write to it, and it is not in the working folder"
    is_shared = is_shared or _is_writable_by_others(target)
    return "others can write to its folder, which is not the working folder" if is_shared else ""


def check_code(folder: Path, name: str, file: Path | None = None) -> None:
    """Check that code which a project names may be run; ask at the terminal if there is one.

    The user must trust the project. A file must be inside the folder of the project, also after its links are followed.
    It must belong to the user, to root or to the owner of that folder, and no other account may be able to write to it
    or to a folder on its path.

    Args:
        folder: Folder of the project.
        name: Name of the file or module in `plugins:`.
        file: The file, or `None` for a module of an installed package.

    Raises:
        BadInput: It may not be run, or the user's record is damaged.
    """
    top = folder.resolve()
    if file is not None:
        _check_code_file(top, name, file.resolve())
    if is_trusted(top) or name in (record := _record())[_CODE].get(str(top), ()):
        return
    if not any(ask(f"The project in {top} runs the code of {name}. Continue?") for ask in _asking):
        raise BadInput(
            f"plugins: {name} was not run, because you have not confirmed that you trust the project in {top}. Read "
            f"the code; if you trust it: accord trust {top}, or set {TRUST_VARIABLE}=1"
        )
    record[_CODE].setdefault(str(top), []).append(name)
    _save(record)


def _check_code_file(folder: Path, name: str, file: Path) -> None:
    """Check the place, the owners and the modes of a file with code; both paths are resolved."""
    if not file.is_relative_to(folder):
        raise BadInput(f"plugins: {name} is a link out of the project's folder {folder}; copy the file into the folder")
    if not file.is_file():
        raise BadInput(f"plugins: no file {name} in the project's folder {folder}; create it, or remove the entry")
    if sys.platform == "win32":  # has no such owners and modes
        return
    accounts = _own_accounts() | {folder.stat().st_uid}
    for each in (file, *(parent for parent in file.parents if parent.is_relative_to(folder))):
        about = each.stat()
        if about.st_uid not in accounts:
            raise BadInput(f"plugins: {name} was not run, because another account owns {each}; copy the file yourself")
        if _is_writable_by_others(about):
            raise BadInput(f"plugins: {name} was not run, because others can write to {each}; run: chmod go-w {each}")


def _own_accounts() -> set[int]:
    """Return the user's account and root's; for root also the account that called `sudo`."""
    accounts = {0, os.geteuid()}
    caller = os.environ.get("SUDO_UID", "")
    return accounts | {int(caller)} if os.geteuid() == 0 and caller.isascii() and caller.isdigit() else accounts


def _is_writable_by_others(about: os.stat_result) -> bool:
    """Return True if all accounts, or a group of more than the owner, can write to a file or folder."""
    if about.st_mode & stat.S_IWOTH:
        return True
    return bool(about.st_mode & stat.S_IWGRP) and not _is_private_group(about.st_uid, about.st_gid)


def _is_private_group(account: int, group: int) -> bool:
    """Return True for the group of one account alone, which many systems create with the account."""
    import grp  # imported here, because Windows lacks them
    import pwd

    try:
        user, about = pwd.getpwuid(account), grp.getgrgid(group)
    except KeyError:
        return False
    return user.pw_gid == group and user.pw_name == about.gr_name and set(about.gr_mem) <= {user.pw_name}


# --- addresses --------------------------------------------------------------------------------------------------------


def origin_of(url: str) -> str:
    """Return scheme, host and port of an address; for PostgreSQL all hosts, also of the query and variables.

    Database drivers split an address in other ways than web clients, so each part behind an `@` counts as a host. For
    a file, also of a SQLite store, it is the path without links; a query could name another file, so it stays.

    >>> origin_of("https://key@LLM.example.org:8443/v1?a=b"), origin_of("postgresql://ada@db/x?host=other")
    ('https://llm.example.org:8443', 'postgresql://db,other')
    """
    is_file = _FILE.match(url)
    if is_file or "://" not in url:
        name = url[is_file.end() :] if is_file else url
        if name in ("", ":memory:"):
            return _FILES
        is_path = "?" not in name and "\0" not in name and not name.startswith("file:")  # SQLite reads others as a URI
        return f"{_FILES}{Path(name).resolve().as_posix() if is_path else name}"
    try:
        parts = urlsplit(url)
        hosts = [parts.netloc.rpartition("@")[2].lower()]
        scheme = parts.scheme.partition("+")[0]
        if scheme in ("postgresql", "postgres"):
            hosts += [re.split("[/?#]", each)[0].lower() for each in url.split("@")[1:]]
            hosts += [value.lower() for name, value in parse_qsl(parts.query) if name in ("host", "hostaddr")]
            hosts = list(filter(None, hosts)) or [os.environ.get("PGHOST", "")]
            hosts.append(os.environ.get("PGHOSTADDR", "").lower())  # libpq prefers this address to every host
            hosts = list(dict.fromkeys(filter(None, hosts)))
    except ValueError:
        return UNREADABLE
    return f"{scheme}://{','.join(hosts)}"


def is_local_address(url: str) -> bool:
    """Return True if requests to an address stay on this machine.

    >>> is_local_address("http://127.0.0.1:8000/v1"), is_local_address("https://api.example.org/v1")
    (True, False)
    """
    return _is_local(origin_of(url))


def _is_local(origin: str) -> bool:
    """Return True if an address stays on this machine: loopback, a socket in a folder, or a file."""
    return origin != UNREADABLE and all(map(_is_local_host, origin.partition("://")[2].split(",")))


def _is_local_host(host: str) -> bool:
    if not host or host.startswith("/"):
        return True
    from ipaddress import ip_address

    name = host[1:].partition("]")[0] if host.startswith("[") else host.rpartition(":")[0] or host
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def is_elsewhere(folder: Path, url: str) -> bool:
    """Return True if an address is on another machine, or is a file outside the folder of a project."""
    origin = origin_of(url)
    if origin.startswith(_FILES):
        return not Path(origin.removeprefix(_FILES) or folder.resolve()).is_relative_to(folder.resolve())
    return not _is_local(origin)


def note_addresses(folder: Path, urls: Iterable[str], own: Iterable[str] = ()) -> None:
    """Note the addresses that the files of a project name; `check_address` asks about them before their first use.

    Args:
        folder: Folder of the project.
        urls: Addresses in its files.
        own: Addresses that the user chose independently of the project.

    Raises:
        BadInput: The user's record is damaged.
    """
    accepted, top = set(map(origin_of, own)), folder.resolve()
    for url in dict.fromkeys(urls):
        origin = origin_of(url)
        is_own = origin in accepted and "@" not in url  # a user or a password there is a key
        if is_elsewhere(folder, url) and not is_own and not _is_confirmed(folder, origin):
            _unconfirmed[origin] = top


def _is_confirmed(folder: Path, name: str) -> bool:
    return is_trusted(folder) or name in _record()[_ADDRESSES].get(str(folder.resolve()), ())


def check_address(url: str, keys: Iterable[str] = ()) -> None:
    """Check that the user has confirmed an address if a project names it; ask at the terminal if there is one.

    Args:
        url: Address of a request.
        keys: Variables with keys that the request contains. Those that the `.env` file of a project has set need a
            confirmation at every address of another machine.

    Raises:
        NotSent: The address is not confirmed, or a key for it.
        BadInput: The user's record is damaged.
    """
    origin = origin_of(url)
    named_by = _unconfirmed.get(origin)
    set_by = {} if _is_local(origin) else {name: project_that_set(name) for name in keys}
    owners = {name: folder for name, folder in set_by.items() if folder is not None}
    for folder in dict.fromkeys([*([] if named_by is None else [named_by]), *owners.values()]):
        used = [name for name, owner in owners.items() if owner == folder]
        wanted = [*([origin] if folder == named_by else []), *(f"{name} at {origin}" for name in used)]
        new = [each for each in wanted if not _is_confirmed(folder, each)]
        if not new:
            continue
        of_file = f" with {' and '.join(used)} from its file .env" if used else ""
        where, is_file = origin.removeprefix(_FILES), origin.startswith(_FILES)
        verb = "keeps data outside its folder in" if is_file else "sends data to"
        if not any(ask(f"The project in {folder} {verb} {where}{of_file}. Continue?") for ask in _asking):
            reason = "keeps data there, outside its folder" if is_file else "names this address"
            if used:
                reason = f"has {' and '.join(used)} in its file .env, whose owner could read the requests"
            own = f", or set your own {used[0]}" if used else ""
            raise NotSent(
                f"nothing was {'written' if is_file else 'sent'} to {where}: the project in {folder} {reason}, and you "
                f"have not confirmed it. If you know it: accord trust {folder}, or set {TRUST_VARIABLE}=1{own}"
            )
        record = _record()
        record[_ADDRESSES].setdefault(str(folder), []).extend(new)
        _save(record)
    _unconfirmed.pop(origin, None)


def set_variable(folder: Path, name: str, value: str) -> None:
    """Set a variable of the environment from the `.env` file of a project."""
    os.environ[name] = value
    _file_variables[name] = _hash(value), folder.resolve()


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogateescape")).hexdigest()


def project_that_set(variable: str) -> Path | None:
    """Return the folder of the project whose `.env` file has set a variable, or `None` if no project set it."""
    value, known = os.environ.get(variable), _file_variables.get(variable)
    return known[1] if value and known is not None and _hash(value) == known[0] else None


Noted = tuple[dict[str, Path], dict[str, tuple[str, Path]]]
"""Addresses that need a confirmation, and variables of `.env` files."""


def noted_trust() -> Noted:
    """Return what this process has noted of projects, for a worker process that sends requests; it holds no values."""
    return dict(_unconfirmed), dict(_file_variables)


def accept_trust(noted: Noted) -> None:
    """Note what another process has noted of projects."""
    _unconfirmed.update(noted[0])
    _file_variables.update(noted[1])


def ask_with(ask: Callable[[str], bool] | None) -> None:
    """Set the function that asks the user whether an address is right; None, the default, without a terminal."""
    _asking[:] = [] if ask is None else [ask]


def own_project(folder: Path) -> None:
    """Trust a project that the user has just created; a record that cannot be written is ignored.

    If its folder has a file `.env` already, another person may have written that file, and the project is not trusted.
    """
    import logging

    if (folder / ".env").exists():
        logging.getLogger("accord").warning(
            "this folder had a file .env before the project; to use its variables and keys without questions: accord "
            "trust %s", folder.resolve()
        )  # fmt: skip
        return
    try:
        trust_folder(folder)
    except (AccordError, OSError):
        logging.getLogger("accord").warning("cannot write %s: requests of this project ask first", trusted_file())
