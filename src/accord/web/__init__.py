"""Web pages for rating, chatting, exploring scores and managing studies; requires the extra `accord[serve]`."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
