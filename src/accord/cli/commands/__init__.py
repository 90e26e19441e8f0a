"""The commands; importing it registers it, in the order the help lists them."""

from accord.cli.commands import (  # noqa: F401, I001 - the order is the help's
    demo,
    run,
    init,
    import_,
    export,
    judge,
    issues,
    validate,
    fit,
    agreement,
    score,
    serve,
    board,
    users,
    follow,
    watch,
    store,
    models,
    finetune,
    plugins,
)
