from .app import app as app, guarded as guarded, main as main
from .findings import fitted_text as fitted_text
from .show import Progress as Progress
