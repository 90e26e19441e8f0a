"""One file a command; importing it registers it, in the order the help lists them."""

from accord.cli.commands import (  # noqa: F401, I001 - the order is the help's
    demo,
    run,
    init,
    import_,
    judge,
    issues,
    validate,
    fit,
    compare,
    label,
    estimate,
    score,
    serve,
    follow,
    watch,
    report,
    gate,
    models,
    finetune,
    plugins,
)
