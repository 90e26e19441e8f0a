from .app import app as app, main as main
