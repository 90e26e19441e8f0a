"""Redaction of personal data in conversations: rules by kind, recognizers of plug-ins, stable placeholders."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
