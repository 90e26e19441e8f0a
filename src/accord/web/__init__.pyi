from .accounts import add_person as add_person, change_role as change_role, local_sign_in_link as local_sign_in_link
from .accounts import new_link as new_link
from .app import workbench_app as workbench_app
from .context import WorkbenchContext as WorkbenchContext
from .project_editing import ProjectFiles as ProjectFiles
