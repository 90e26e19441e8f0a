"""A project: `accord.yaml` opened, with the verbs of daily work, each giving back a typed result."""

from lazy_loader import attach_stub

__getattr__, __dir__, __all__ = attach_stub(__name__, __file__)
