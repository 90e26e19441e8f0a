"""Write requirements-dev.lock: the exact versions of all packages for development, as installed in this environment.

Renew it after a change of dependencies: `make setup && make lock`. It reads the metadata of installed packages and
asks no host. Install from it: `pip install -r requirements-dev.lock`, then the two distributions with `--no-deps`. A
package whose marker excludes this system, such as a Windows wheel, is not in the lock.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
LOCK = ROOT / "requirements-dev.lock"
OWN = {"accord", "accord-papers"}
PROJECTS = (ROOT / "pyproject.toml", ROOT / "packages" / "accord-papers" / "pyproject.toml")
HEADER = "# Versions for development, of Python {}; written by tools/lock.py. Renew it: make setup && make lock\n"


def declared() -> dict[str, list[Requirement]]:
    """Return the requirements of both distributions with the extra `all` and the group `dev`, by package."""
    found: dict[str, list[Requirement]] = {}
    for requirement in _declared():
        if requirement.marker is None or requirement.marker.evaluate():
            found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return {name: each for name, each in found.items() if name not in OWN}


def _declared() -> Iterator[Requirement]:
    for file in PROJECTS:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
        project = content["project"]
        yield from map(Requirement, project["dependencies"])
        extras = project.get("optional-dependencies", {})
        for bundle in map(Requirement, extras.get("all", [])):
            for extra in bundle.extras:
                yield from map(Requirement, extras[extra])
        yield from map(Requirement, content.get("dependency-groups", {}).get("dev", []))


def installed(requirements: Iterable[Requirement]) -> dict[str, str]:
    """Return the installed version of each required package and of everything that it requires.

    Raises:
        SystemExit: A package is not installed.
    """
    versions: dict[str, str] = {}
    done: set[tuple[str, frozenset[str]]] = set()
    queue = list(requirements)
    while queue:
        requirement = queue.pop()
        name = canonicalize_name(requirement.name)
        key = name, frozenset(requirement.extras)
        if key in done or name in OWN:
            continue
        done.add(key)
        try:
            found = distribution(name)
        except PackageNotFoundError:
            sys.exit(f"{name} is not installed; run: make setup")
        versions[name] = found.version
        for line in found.requires or ():
            needed = Requirement(line)
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                queue.append(needed)
    return versions


def locked() -> dict[str, str]:
    """Return the versions in the lock file."""
    lines = (line.strip() for line in LOCK.read_text(encoding="utf-8").splitlines())
    return dict(line.split("==", 1) for line in lines if line and not line.startswith("#"))


def misfits() -> list[str]:
    """Return a sentence for each declared requirement that the lock file lacks or does not fit."""
    versions, wrong = locked(), []
    for name, requirements in declared().items():
        for requirement in requirements:
            if name not in versions:
                wrong.append(f"{name} is not in {LOCK.name}")
            elif not requirement.specifier.contains(versions[name], prereleases=True):
                wrong.append(f"{name}=={versions[name]} in {LOCK.name} does not fit {requirement}")
    return wrong


def main() -> None:
    """Write or check the lock file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="Compare the lock file with both pyproject.toml.")
    if parser.parse_args().check:
        if wrong := misfits():
            sys.exit("\n".join([*wrong, "Renew it: make setup && make lock"]))
        return
    versions = installed(each for requirements in declared().values() for each in requirements)
    lines = "".join(f"{name}=={version}\n" for name, version in sorted(versions.items()))
    header = HEADER.format(".".join(map(str, sys.version_info[:2])))
    LOCK.write_text(header + lines, encoding="utf-8")


if __name__ == "__main__":
    main()
