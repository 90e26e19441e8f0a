"""Check of any table with a judge's scores and some human labels: agreement, corrected means, bias, repeats.

The package is not called `check`, because a module `accord.check` would replace the function `accord.check`.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
