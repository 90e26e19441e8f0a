from .accounts import Accounts as Accounts, Visitor as Visitor, add_person as add_person, change_role as change_role
from .accounts import local_sign_in_link as local_sign_in_link, new_link as new_link
from .app import Bench as Bench, workbench_app as workbench_app
from .asking import OpenStudy as OpenStudy, Sheet as Sheet
from .detection import detection_outcome as detection_outcome
from .drawing import drawn as drawn, eligible as eligible
from .validated import Given as Given, Outcome as Outcome, Resampling as Resampling, Validated as Validated
from .validated import table as table
from .overall import agreement_with_all as agreement_with_all, agreement_with_model as agreement_with_model
from .overall import agreement_with_others as agreement_with_others, overall_outcome as overall_outcome
from .validation import FLOWS as FLOWS, open_validation as open_validation, outcome as outcome, outcomes as outcomes
from .validation import shipped_study as shipped_study
