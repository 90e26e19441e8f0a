from .app import app as app, guarded as guarded, main as main
from .texts import fitted_text as fitted_text
from .outputs import outputs_of as outputs_of
from .terminal import Progress as Progress
