"""Write the font and the icons of the pages from the npm packages `inter-ui` and `lucide-static`.

    npm pack inter-ui@4.1.1 lucide-static@1.62.0     # then unpack both
    python tools/make_look.py inter-ui/package lucide-static/package

Needs `pip install "fonttools[woff]"`, which nothing else of Accord uses. Writes `inter.woff2` and `icons.svg` to
`src/accord/charts/look`, next to the licenses of both.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fontTools.subset import Options, Subsetter
from fontTools.ttLib import TTFont
from fontTools.varLib.instancer import instantiateVariableFont

LOOK = Path(__file__).parents[1] / "src" / "accord" / "charts" / "look"
LETTERS = [
    *range(0x20, 0x7F), *range(0xA0, 0x180), 0x218, 0x219, 0x21A, 0x21B, 0x1E9E,  # Latin, Latin-1, Latin Extended-A
    *range(0x2010, 0x2016), 0x2018, 0x2019, 0x201A, 0x201C, 0x201D, 0x201E, 0x2022, 0x2026, 0x2032, 0x2033, 0x2039,
    0x203A, 0x202F, 0x2009, 0x20AC, 0x2122, 0x2190, 0x2191, 0x2192, 0x2193, 0x2212, 0x2248, 0x2260, 0x2264, 0x2265,
    0x2713, 0x2715, 0x03B1, 0x03BA, 0x03C1, 0x03C4, 0x0394, 0x00D7,  # α, κ, ρ and τ name statistics
]  # fmt: skip
ICONS = (
    "house", "clipboard-check", "chart-line", "scale", "settings", "circle-question-mark", "users", "log-out",
    "sun-moon", "chevron-right", "chevron-left", "chevron-down", "arrow-right", "arrow-left", "check", "x", "plus",
    "upload", "download", "copy", "search", "triangle-alert", "info", "trash-2", "pencil", "message-square",
    "file-text", "wrench", "play", "refresh-cw", "ellipsis", "external-link", "undo-2", "sliders-horizontal", "link",
    "flag",
)  # fmt: skip


def write_font(package: Path) -> None:
    """Write Inter with weights 400 to 650 at the optical size of text, for Latin letters and figures of one width."""
    font = TTFont(package / "variable" / "InterVariable.woff2")
    options = Options(flavor="woff2", layout_features=["kern", "mark", "mkmk", "ccmp", "locl", "tnum", "calt"])
    options.name_IDs, options.notdef_outline, options.hinting = [0, 1, 2, 3, 5, 13, 14], True, False
    subset = Subsetter(options)
    subset.populate(unicodes=LETTERS)
    subset.subset(font)
    instantiateVariableFont(font, {"wght": (400, 400, 650), "opsz": 14}, inplace=True)
    font.flavor = "woff2"
    font.save(LOOK / "inter.woff2")
    (LOOK / "inter-license.txt").write_bytes((package / "LICENSE.txt").read_bytes())


def write_icons(package: Path) -> None:
    """Write the paths of the icons that pages use, one symbol a line."""
    symbols = []
    for name in sorted(ICONS):
        lines = (package / "icons" / f"{name}.svg").read_text(encoding="utf-8").splitlines()
        paths = "".join(line.strip().replace(" />", "/>") for line in lines[lines.index(">") + 1 : -1])
        symbols.append(f'<symbol id="{name}" viewBox="0 0 24 24">{paths}</symbol>')
    header = "<!-- Lucide (ISC), see lucide-license.txt -->"
    sprite = "\n".join([header, '<svg xmlns="http://www.w3.org/2000/svg">', *symbols, "</svg>", ""])
    (LOOK / "icons.svg").write_text(sprite, encoding="utf-8")
    (LOOK / "lucide-license.txt").write_bytes((package / "LICENSE").read_bytes())


if __name__ == "__main__":
    LOOK.mkdir(exist_ok=True)
    write_font(Path(sys.argv[1]))
    write_icons(Path(sys.argv[2]))
    for path in sorted(LOOK.iterdir()):
        print(f"{path.name} {path.stat().st_size:,} bytes")
