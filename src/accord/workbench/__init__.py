"""Where people judge: studies, who is asked what, and what came of it.

The pages need the extra `accord[serve]`: they are imported when they are asked for.
"""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
