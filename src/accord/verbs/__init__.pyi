from .cycle import Cycle as Cycle, CycleOptions as CycleOptions, run_cycle as run_cycle
from .gate import gate_checks as gate_checks
from .gate_files import gate_text as gate_text, write_gate as write_gate
from .project import open as open, open_project as open_project, Project as Project
from .run import run_project as run_project, run_settings as run_settings
