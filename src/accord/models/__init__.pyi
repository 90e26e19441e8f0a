from .batching import AGAIN as AGAIN, Batch as Batch, BatchEndpoint as BatchEndpoint, Batched as Batched
from .batching import GRACE as GRACE, UNCONFIRMED as UNCONFIRMED, batch_files as batch_files
from .batching import may_have_started as may_have_started, read_batch as read_batch
from .budget import Budget as Budget, Budgeted as Budgeted, Caps as Caps, Price as Price, is_unsent as is_unsent
from .budget import load_prices as load_prices
from .client import ChatCompletions as ChatCompletions, EmbeddingsEndpoint as EmbeddingsEndpoint, Texts as Texts
from .embedded.catalogue import CATALOGUE as CATALOGUE, Published as Published, is_pulled as is_pulled
from .embedded.catalogue import is_ready as is_ready, list_models as list_models, models_folder as models_folder
from .embedded.catalogue import opened as opened
from .embedded.chat import EmbeddedChat as EmbeddedChat
from .embedded.hf import MADE as MADE
from .embedded.language_model import LanguageModel as LanguageModel, open_language_model as open_language_model
from .embedded.llama import Llama as Llama, Prefix as Prefix, Shape as Shape
from .embedded.minilm import open_sentence_embedder as open_sentence_embedder
from .embedders import DEFAULT as DEFAULT, Embedder as Embedder, Local as Local, Remote as Remote
from .embedders import is_remote as is_remote, open_embedder as open_embedder
from .flow import Flow as Flow, IN_BATCH as IN_BATCH, OUT_OF_BUDGET as OUT_OF_BUDGET, PromptFlow as PromptFlow
from .flow import Request as Request, all_of as all_of, as_finished as as_finished, ask as ask, drive as drive
from .flow import nothing as nothing, run_flow as run_flow, to as to, together as together
from .judges.decisions import Asked as Asked, DecisionsRequest as DecisionsRequest, request_of as request_of
from .judges.logprobs import IN_PROCESS_LOGPROBS as IN_PROCESS_LOGPROBS, LogprobsJudge as LogprobsJudge
from .judges.logprobs import TOP_LOGPROBS as TOP_LOGPROBS, read_first_token as read_first_token
from .judges.recorded import JUDGEMENTS_FILE as JUDGEMENTS_FILE, NOT_RECORDED as NOT_RECORDED
from .judges.recorded import RecordedJudge as RecordedJudge, Recording as Recording, question_of as question_of
from .judges.recorded import read_recordings as read_recordings, recorded_item as recorded_item
from .judges.written import VerbalisedJudge as VerbalisedJudge, frequencies as frequencies, read_stated as read_stated
from .judging import AT_ONCE as AT_ONCE, Judged as Judged, Named as Named
from .judging import judge_all as judge_all, judging_signature as judging_signature
from .judging import kept_answers as kept_answers, questions_for as questions_for
from .kept_embeddings import embed as embed
from .ledger import Lease as Lease, Ledger as Ledger
from .likelihood import EmbeddedLikelihood as EmbeddedLikelihood, Likelihood as Likelihood
from .likelihood import LikelihoodModel as LikelihoodModel, Measured as Measured, Passage as Passage
from .listed import Form as Form, PROSE as PROSE, ask_for_list as ask_for_list, listed as listed, strict as strict
from .listed import twice as twice
from .model import Answer as Answer, CallFailed as CallFailed, ChatMessage as ChatMessage, ChatModel as ChatModel
from .model import Failure as Failure, HF as HF, Judge as Judge, Prompt as Prompt, Reply as Reply
from .model import Unanswered as Unanswered, Usage as Usage, estimated_usage as estimated_usage
from .model import in_process as in_process, in_requests as in_requests, located_model as located_model
from .opening import ClientOptions as ClientOptions, MODES as MODES, asked_on as asked_on
from .opening import decided_endpoint_of as decided_endpoint_of, endpoint_of as endpoint_of
from .opening import open_batched as open_batched, open_chat as open_chat, open_decided as open_decided
from .opening import open_heard as open_heard, open_judge as open_judge, open_likelihood as open_likelihood
from .opening import open_uncached as open_uncached
from .planned import Plan as Plan
from .probing import attacked as attacked, attacks as attacks, best_mode as best_mode, probe as probe
from .prompts import answer_labels as answer_labels, documents_of as documents_of, fence_for as fence_for
from .prompts import fenced as fenced, material_of as material_of, prompt_file as prompt_file, prompt_for as prompt_for
from .prompts import transcript_of as transcript_of
from .requests import ASSISTANT as ASSISTANT, EMBEDDER as EMBEDDER, FINDER as FINDER, JUDGE as JUDGE, Keep as Keep
from .requests import Known as Known, LIKELIHOOD as LIKELIHOOD, Makers as Makers, NOT_APPLICABLE as NOT_APPLICABLE
from .requests import NEVER_SENT as NEVER_SENT, NOT_ASKED as NOT_ASKED, NOT_YET as NOT_YET
from .requests import Questions as Questions, Recall as Recall, SCORER as SCORER, STORE as STORE, Text as Text
from .requests import USER as USER, WRITER as WRITER, Who as Who
from .running import Models as Models, Step as Step, memory_models as memory_models, plan as plan, run as run
from .running import plan_range as plan_range
from .scripted import ScriptedJudge as ScriptedJudge, ScriptedModel as ScriptedModel
from .settings import Mode as Mode, ModelSettings as ModelSettings
from .streaming import CUT_OFF as CUT_OFF, Heard as Heard, Pieces as Pieces, StreamingChat as StreamingChat
from .streaming import streamed as streamed
from .waiting import start as start, wait as wait
from .windowing import MARGIN as MARGIN, fitted as fitted, own_context as own_context, room_beside as room_beside
from .windowing import room_for as room_for, truncated_share as truncated_share, windowing as windowing
from .wrappers import Cached as Cached, Limit as Limit, Limited as Limited, Once as Once, Retrying as Retrying
from .wrappers import decode_reply as decode_reply, kept_key as kept_key, paid_reply as paid_reply
