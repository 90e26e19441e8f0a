"""The commands; importing this package registers them."""

from accord.cli.commands import (  # noqa: F401, I001 - the order is that of docs/commands.md
    run,
    check,
    init,
    import_,
    learn,
    agreement,
    card,
    score,
    push,
    live,
    users,
    store,
    models,
    privacy,
    agents,
)
