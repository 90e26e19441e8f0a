from .agreement_card import AgreementCard as AgreementCard, card_differences as card_differences
from .agreement_card import card_drift as card_drift, CardAgreement as CardAgreement, CardBands as CardBands
from .agreement_card import CardBaseline as CardBaseline, CardGroup as CardGroup, CardLabels as CardLabels
from .agreement_card import CardQuestion as CardQuestion, CardRule as CardRule, CardSubject as CardSubject
from .agreement_card import CardTest as CardTest, Interval as Interval, is_model_name as is_model_name
from .agreement_card import labels_digest as labels_digest, lower_bounds as lower_bounds, Maker as Maker
from .agreement_card import read_card as read_card
from .certificate import Certificate as Certificate, certify as certify
from .costs import at_least_cost as at_least_cost, check_costs as check_costs, Costs as Costs, decision as decision
from .costs import decode as decode, decoded as decoded, least_cost as least_cost, parse_costs as parse_costs
from .figures import Evidence as Evidence, figures_of as figures_of, rests_on as rests_on
from .recommendation import contenders as contenders, decide as decide, Decision as Decision
from .selective import AGREE as AGREE, LEFT as LEFT, left_for_people as left_for_people, Selection as Selection
from .verdict import Verdict as Verdict, verdict_of as verdict_of
