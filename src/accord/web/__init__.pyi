from .accounts import Accounts as Accounts, add_person as add_person, change_role as change_role
from .accounts import local_sign_in_link as local_sign_in_link, new_link as new_link, Visitor as Visitor
from .app import workbench_app as workbench_app
from .context import WorkbenchContext as WorkbenchContext
from .project_editing import ProjectFiles as ProjectFiles
