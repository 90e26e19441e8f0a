from .ask_judge import AT_ONCE as AT_ONCE, judge_all as judge_all, Judged as Judged
from .ask_judge import judging_signature as judging_signature, kept_answers as kept_answers, Named as Named
from .ask_judge import questions_for as questions_for
from .batching import AGAIN as AGAIN, Batch as Batch, batch_files as batch_files, Batched as Batched
from .batching import BatchEndpoint as BatchEndpoint, GRACE as GRACE, may_have_started as may_have_started
from .batching import read_batch as read_batch, UNCONFIRMED as UNCONFIRMED
from .budget import Budget as Budget, Budgeted as Budgeted, Caps as Caps, is_unsent as is_unsent
from .budget import load_prices as load_prices, Price as Price
from .capability_check import attacked as attacked, attacks as attacks, best_mode as best_mode, probe as probe
from .client import ChatCompletions as ChatCompletions, EmbeddingsEndpoint as EmbeddingsEndpoint, Texts as Texts
from .context_window import fitted as fitted, MARGIN as MARGIN, own_context as own_context, room_beside as room_beside
from .context_window import room_for as room_for, truncated_share as truncated_share, windowing as windowing
from .cost_plan import Plan as Plan
from .drivers import memory_models as memory_models, Models as Models, plan as plan, plan_range as plan_range
from .drivers import run as run, Step as Step
from .embedded.catalogue import CATALOGUE as CATALOGUE, is_pulled as is_pulled, is_ready as is_ready
from .embedded.catalogue import list_models as list_models, models_folder as models_folder, opened as opened
from .embedded.catalogue import Published as Published
from .embedded.chat import EmbeddedChat as EmbeddedChat
from .embedded.huggingface import MADE as MADE
from .embedded.language_model import LanguageModel as LanguageModel, open_language_model as open_language_model
from .embedded.llama import Llama as Llama, Prefix as Prefix, Shape as Shape
from .embedded.minilm import open_sentence_embedder as open_sentence_embedder
from .embedders import DEFAULT as DEFAULT, Embedder as Embedder, is_remote as is_remote, Local as Local
from .embedders import open_embedder as open_embedder, Remote as Remote
from .embedding_cache import embed as embed
from .event_loop import start as start, wait as wait
from .factory import asked_on as asked_on, ClientOptions as ClientOptions, decided_endpoint_of as decided_endpoint_of
from .factory import endpoint_of as endpoint_of, MODES as MODES, open_batched as open_batched, open_chat as open_chat
from .factory import open_decided as open_decided, open_heard as open_heard, open_judge as open_judge
from .factory import open_likelihood as open_likelihood, open_uncached as open_uncached
from .flow import all_of as all_of, as_finished as as_finished, ask as ask, drive as drive, Flow as Flow
from .flow import IN_BATCH as IN_BATCH, nothing as nothing, OUT_OF_BUDGET as OUT_OF_BUDGET, PromptFlow as PromptFlow
from .flow import Request as Request, run_flow as run_flow, to as to, together as together
from .judges.decisions import Asked as Asked, DecisionsRequest as DecisionsRequest, request_of as request_of
from .judges.logprobs import IN_PROCESS_LOGPROBS as IN_PROCESS_LOGPROBS, LogprobsJudge as LogprobsJudge
from .judges.logprobs import read_first_token as read_first_token, TOP_LOGPROBS as TOP_LOGPROBS
from .judges.recorded import JUDGEMENTS_FILE as JUDGEMENTS_FILE, NOT_RECORDED as NOT_RECORDED
from .judges.recorded import question_of as question_of, read_recordings as read_recordings
from .judges.recorded import recorded_item as recorded_item, RecordedJudge as RecordedJudge, Recording as Recording
from .judges.sampling import frequencies as frequencies, read_stated as read_stated, VerbalisedJudge as VerbalisedJudge
from .likelihood import EmbeddedLikelihood as EmbeddedLikelihood, Likelihood as Likelihood
from .likelihood import LikelihoodModel as LikelihoodModel, Measured as Measured, Passage as Passage
from .list_replies import ask_for_list as ask_for_list, Form as Form, listed as listed, PROSE as PROSE, strict as strict
from .list_replies import twice as twice
from .model import Answer as Answer, CallFailed as CallFailed, ChatMessage as ChatMessage, ChatModel as ChatModel
from .model import estimated_usage as estimated_usage, Failure as Failure, HF as HF, in_process as in_process
from .model import in_requests as in_requests, Judge as Judge, located_model as located_model, Prompt as Prompt
from .model import Reply as Reply, Unanswered as Unanswered, Usage as Usage
from .prompts import answer_labels as answer_labels, documents_of as documents_of, fence_for as fence_for
from .prompts import fenced as fenced, material_of as material_of, prompt_file as prompt_file, prompt_for as prompt_for
from .prompts import transcript_of as transcript_of
from .request_ledger import Lease as Lease, Ledger as Ledger
from .requests import ASSISTANT as ASSISTANT, EMBEDDER as EMBEDDER, FINDER as FINDER, JUDGE as JUDGE, Keep as Keep
from .requests import Known as Known, LIKELIHOOD as LIKELIHOOD, Makers as Makers, NEVER_SENT as NEVER_SENT
from .requests import NOT_APPLICABLE as NOT_APPLICABLE, NOT_ASKED as NOT_ASKED, NOT_YET as NOT_YET
from .requests import Questions as Questions, Recall as Recall, SCORER as SCORER, STORE as STORE, Text as Text
from .requests import USER as USER, Who as Who, WRITER as WRITER
from .scripted import ScriptedJudge as ScriptedJudge, ScriptedModel as ScriptedModel
from .settings import Mode as Mode, ModelSettings as ModelSettings
from .streaming import CUT_OFF as CUT_OFF, Heard as Heard, Pieces as Pieces, streamed as streamed
from .streaming import StreamingChat as StreamingChat
from .wrappers import Cached as Cached, decode_reply as decode_reply, kept_key as kept_key, Limit as Limit
from .wrappers import Limited as Limited, Once as Once, paid_reply as paid_reply, Retrying as Retrying
