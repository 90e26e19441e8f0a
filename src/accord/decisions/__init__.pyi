from .agreement_card import AgreementCard as AgreementCard, check_makers as check_makers, labels_digest as labels_digest
from .card_files import write_card as write_card
from .batches import Batch as Batch, batch_change as batch_change, batch_changes as batch_changes
from .batches import BatchChange as BatchChange, sight_of as sight_of, with_labels as with_labels
from .certificate import Certificate as Certificate, certify as certify
from .costs import at_least_cost as at_least_cost, check_costs as check_costs, Costs as Costs, decision as decision
from .costs import decode as decode, decoded as decoded, least_cost as least_cost, parse_costs as parse_costs
from .figures import Evidence as Evidence, Figures as Figures, figures_of as figures_of, rests_on as rests_on
from .recommendation import Contest as Contest
from .repetitions import is_settled as is_settled
from .recommendation import contenders as contenders, decide as decide, Decision as Decision
from .selective import AGREE as AGREE, LEFT as LEFT, left_for_people as left_for_people, Selection as Selection
from .verdict import STATES as STATES, Verdict as Verdict, verdict_of as verdict_of
from .verdict_words import NEAR_PEOPLE as NEAR_PEOPLE, rules_table as rules_table, STEPS as STEPS
from .verdict_words import uses_table as uses_table
