"""The commands; importing it registers it, in the order the help lists them."""

from accord.cli.commands import (  # noqa: F401, I001 - the order is the help's
    run,
    init,
    import_,
    judge,
    synth,
    validate,
    fit,
    agreement,
    score,
    serve,
    users,
    follow,
    watch,
    store,
    models,
    finetune,
    view,
)
