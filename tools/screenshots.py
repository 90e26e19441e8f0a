"""Take the pictures of docs/gallery: the report and the pages of the workbench on the sample conversations.

    python tools/screenshots.py [--out docs/gallery] [--only report,rate]

A headless Chromium opens the pages of a project that `accord demo` makes and of a study with simulated ratings, on a
laptop with light and dark colors and on a phone. A picture keeps its 256 most distinct colors, a third of its size.
"""

from __future__ import annotations

import argparse
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from statistics import fmean
from typing import Any
from urllib.request import urlopen

import yaml
from PIL import Image

from accord import Project
from accord.project import load_config
from accord.store import Studies
from accord.studies import StudySession, SubmittedAnswer
from accord.web import add_person

ROOT = Path(__file__).parents[1]
BROWSERS = ("chromium-headless-shell", "chromium", "google-chrome")
DESKTOP, PHONE = {"width": 1440, "height": 900}, {"width": 390, "height": 800}
ANNOTATORS = ("Ana", "Ben", "Chloe")
STUDY = {"helpfulness": {"title": "How good is the assistant?", "annotators_per_item": 2, "items": {"sample": 36}}}
PICTURES = {
    "report": ("", "report.html", DESKTOP),
    "report-phone": ("", "report.html", PHONE),
    "home": ("Lena", "/", DESKTOP),
    "rate": ("Ana", "/rate/helpfulness/next", DESKTOP),
    "rate-phone": ("Ana", "/rate/helpfulness/next", PHONE),
    "lead": ("Lena", "/lead/helpfulness", DESKTOP),
    "new-study": ("Lena", "/studies/new", DESKTOP),
    "rubric": ("Lena", "/rubric", DESKTOP),
    "evaluators": ("Lena", "/evaluators", DESKTOP),
    "board": ("Lena", "/board", DESKTOP),
    "explore": ("Lena", "/explore", DESKTOP),
    "conversation": ("Lena", "worst", DESKTOP),
    "styles": ("Lena", "/styles", DESKTOP),
}
"""By name: the user, the page and the window."""


def files_of(name: str) -> dict[str, str]:
    """Return the files of a picture by color scheme."""
    light = {"light": f"{name}.png"}
    return light if PICTURES[name][2] == PHONE else {**light, "dark": f"{name}-dark.png"}


def main() -> None:
    """Take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "gallery", help="folder of the pictures")
    parser.add_argument("--only", help=f"names of pictures, separated by commas: {', '.join(PICTURES)}")
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(PICTURES)
    if unknown := [name for name in names if name not in PICTURES]:
        parser.error(f"unknown picture {unknown[0]!r}; allowed: {', '.join(PICTURES)}")
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        demo = Path(folder) / "assistant"
        subprocess.run([sys.executable, "-m", "accord", "demo", "--out", str(demo)], check=True, capture_output=True)
        keys, worst = prepare(demo)
        with served(demo) as site, browser() as chromium:
            for name in names:
                user, page, window = PICTURES[name]
                target = (
                    (demo / page).as_uri()
                    if not user
                    else site + (f"/conversation/{worst}" if page == "worst" else page)
                )
                for scheme, file in files_of(name).items():
                    take(chromium, given.out / file, target, keys.get(user, ""), site, window, scheme)
                    print(given.out / file)


def prepare(folder: Path) -> tuple[dict[str, str], str]:
    """Add a study with accounts and simulated ratings; return the keys of the accounts and the lowest conversation."""
    file = folder / "accord.yaml"
    file.write_text(file.read_text(encoding="utf-8") + yaml.safe_dump({"studies": STUDY}), encoding="utf-8")
    with Project(load_config(file)) as project:
        studies = Studies(project.store)
        keys = {"Lena": add_person(studies, "Lena", "lead"), **{name: add_person(studies, name) for name in ANNOTATORS}}
        session = StudySession(project, "helpfulness", studies)
        session.begin()
        session.accept_wording()
        rated: dict[str, list[float]] = {}
        for label in project.store.labels():
            if isinstance(label.value, int | float):
                rated.setdefault(label.target.conversation, []).append(float(label.value))
        rng = random.Random(0)
        for name, share, bias in zip(ANNOTATORS, (0.4, 0.9, 0.8), (0.0, -0.4, 0.3), strict=True):
            rate(session, name, share, bias, rated, rng)
        studies.close()
    return keys, min(rated, key=lambda name: fmean(rated[name]))


def rate(
    session: StudySession, name: str, share: float, bias: float, rated: dict[str, list[float]], rng: random.Random
) -> None:
    """Rate a share of the items as an annotator near the sample's ratings."""
    _, total = session.progress(name)
    for _ in range(round(share * total)):
        assignment = session.take(name)
        if assignment is None:
            return
        for question in session.view(assignment).questions:
            options = [option for option in question.scale.options if isinstance(option, int | float)]
            middle = fmean(rated.get(assignment.item.target.conversation, options)) + bias + rng.gauss(0, 0.6)
            value = min(options, key=lambda option: abs(option - middle))
            id = f"{name}-{assignment.id}-{question.id}"[:64]
            row = {"assignment": assignment.id, "id": id, "question": question.id, "value": value}
            session.answer(name, SubmittedAnswer.from_json(row))
        session.finish(name, assignment.id)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve the project, and yield the address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "accord", "serve", "--port", str(port)]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        try:
            wait_until_ready(f"http://localhost:{port}", process)
            yield f"http://localhost:{port}"
        finally:
            process.terminate()


def wait_until_ready(site: str, process: subprocess.Popen[bytes]) -> None:
    """Return when the server answers."""
    for _ in range(600):
        if process.poll() is not None:
            raise SystemExit(f"accord serve ended: {process.stderr.read().decode() if process.stderr else ''}")
        try:
            urlopen(f"{site}/healthz", timeout=5).close()
            return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("accord serve does not answer")


@contextmanager
def browser() -> Iterator[Any]:
    """Open a headless Chromium."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        raise SystemExit("there is no Chromium; install the system's package chromium-headless-shell")
    with sync_playwright() as driver:
        yield driver.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu", "--font-render-hinting=none"]
        )


def take(chromium: Any, path: Path, target: str, key: str, site: str, window: dict[str, int], scheme: str) -> None:
    """Open a page as a user and take a picture of its first screen."""
    context = chromium.new_context(viewport=window, color_scheme=scheme, base_url=site)
    if key:
        context.request.post("/in", form={"key": key}, headers={"Origin": site})
    page = context.new_page()
    page.goto(target, wait_until="networkidle")
    picture = Image.open(BytesIO(page.screenshot())).convert("RGB")
    picture.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE).save(path, optimize=True)
    context.close()


if __name__ == "__main__":
    main()
