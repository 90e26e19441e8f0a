"""The commands; importing this package registers them, or only the one that `accord` was started with."""

from importlib import import_module

from accord.cli.app import called

MODULES = {
    "run": ("run", "demo"),
    "check": ("check",),
    "init": ("init", "trust", "plugins", "schema"),
    "import_": ("import", "export"),
    "learn": ("judge", "fit", "synth"),
    "agreement": ("compare", "estimate", "gaps", "report", "gate", "issues", "label"),
    "card": ("card",),
    "score": ("score",),
    "cycle": ("cycle",),
    "push": ("push",),
    "live": ("serve", "follow", "watch", "view"),
    "users": ("users", "validate"),
    "store": ("store",),
    "models": ("models", "finetune"),
    "privacy": ("store",),
    "agents": ("skill", "mcp"),
}
"""Names of the commands and groups of each module, in the order of docs/commands.md."""


def register() -> None:
    """Import the modules of the command that was called, or all if that is not a command of Accord."""
    for module in [module for module, names in MODULES.items() if set(called) & set(names)] or MODULES:
        import_module(f"accord.cli.commands.{module}")


register()
