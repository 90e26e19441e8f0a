from .ask_judge import judge_all as judge_all, Judged as Judged, judging_signature as judging_signature
from .ask_judge import questions_for as questions_for, SAMPLES_AT_ONCE as SAMPLES_AT_ONCE
from .batching import Batch as Batch, batch_files as batch_files, BatchChat as BatchChat, BatchEndpoint as BatchEndpoint
from .batching import GRACE as GRACE, may_have_started as may_have_started, read_batch as read_batch
from .batching import RETRYABLE as RETRYABLE, UNCONFIRMED as UNCONFIRMED
from .budget import Budget as Budget, Budgeted as Budgeted, Caps as Caps, is_unsent as is_unsent
from .budget import load_prices as load_prices, Price as Price
from .capability_check import attacks as attacks, best_mode as best_mode, insert_attack as insert_attack, probe as probe
from .client import chat_request_of as chat_request_of, ChatCompletions as ChatCompletions
from .context_window import context_of as context_of, fit_to_context as fit_to_context
from .context_window import MARGIN as MARGIN, room_for as room_for, room_left as room_left
from .context_window import truncated_share as truncated_share
from .drivers import memory_models as memory_models, Models as Models, OnAnswer as OnAnswer, plan as plan
from .drivers import plan_range as plan_range, run as run
from .embedders import DEFAULT as DEFAULT, Embedder as Embedder, is_remote as is_remote, Local as Local
from .embedders import embed as embed, EmbeddingRequest as EmbeddingRequest
from .embedders import EmbeddingsEndpoint as EmbeddingsEndpoint, open_embedder as open_embedder, Remote as Remote
from .exchange import Plan as Plan
from .factory import ClientOptions as ClientOptions, open_batch_judge as open_batch_judge
from .factory import open_chat as open_chat, open_judge as open_judge
from .factory import open_likelihood as open_likelihood, open_streaming as open_streaming
from .factory import open_uncached as open_uncached, wrap_wire as wrap_wire
from .flow import as_finished as as_finished, ask_model as ask_model, ASSISTANT as ASSISTANT, drive as drive
from .flow import EMBEDDER as EMBEDDER, EmbeddingText as EmbeddingText, FINDER as FINDER, Flow as Flow
from .flow import gather_all as gather_all, IN_BATCH as IN_BATCH, JUDGE as JUDGE, LIKELIHOOD as LIKELIHOOD
from .flow import ModelInfo as ModelInfo, ModelQuery as ModelQuery, NEVER_SENT as NEVER_SENT
from .flow import NOT_APPLICABLE as NOT_APPLICABLE, NOT_ASKED as NOT_ASKED, NOT_YET as NOT_YET
from .flow import OUT_OF_BUDGET as OUT_OF_BUDGET, PromptFlow as PromptFlow, Questions as Questions, Request as Request
from .flow import run_flow as run_flow, SCORER as SCORER, start as start, STORE as STORE, StoreRead as StoreRead
from .flow import StoreWrite as StoreWrite, to_role as to_role, together as together, USER as USER, wait as wait
from .flow import without_requests as without_requests, WRITER as WRITER
from .judges.chat_judges import frequencies as frequencies, IN_PROCESS_LOGPROBS as IN_PROCESS_LOGPROBS
from .judges.chat_judges import LogprobsJudge as LogprobsJudge, read_first_token as read_first_token
from .judges.chat_judges import read_stated as read_stated, TOP_LOGPROBS as TOP_LOGPROBS
from .judges.chat_judges import VerbalisedJudge as VerbalisedJudge
from .judges.decisions import DecisionQuestion as DecisionQuestion, decisions_request_of as decisions_request_of
from .judges.decisions import DecisionsRequest as DecisionsRequest
from .judges.recorded import JUDGEMENTS_FILE as JUDGEMENTS_FILE, NOT_RECORDED as NOT_RECORDED
from .judges.recorded import question_of as question_of, read_recordings as read_recordings
from .judges.recorded import recorded_item as recorded_item, RecordedAnswers as RecordedAnswers
from .judges.recorded import RecordedJudge as RecordedJudge
from .likelihood import Likelihood as Likelihood, LikelihoodModel as LikelihoodModel
from .likelihood import LikelihoodRequest as LikelihoodRequest, LikelihoodResult as LikelihoodResult
from .likelihood import passage_hash as passage_hash
from .list_replies import ask_for_list as ask_for_list, ListForm as ListForm, NO_LIST as NO_LIST
from .list_replies import parse_list as parse_list, stand_in_twice as stand_in_twice, strict_schema as strict_schema
from .model import Answer as Answer, CallFailed as CallFailed, ChatMessage as ChatMessage, ChatModel as ChatModel
from .model import DEFAULT_URL as DEFAULT_URL, URL_VARIABLE as URL_VARIABLE
from .model import EMBEDDED as EMBEDDED, estimated_usage as estimated_usage, Failure as Failure, GGUF as GGUF, HF as HF
from .model import in_process as in_process, IN_PROCESS_CONTEXT as IN_PROCESS_CONTEXT, in_requests as in_requests
from .model import (
    Judge as Judge,
    NamedModel as NamedModel,
    located_model as located_model,
    MADE as MADE,
    Prompt as Prompt,
    Reply as Reply,
)
from .model import Unanswered as Unanswered, Usage as Usage
from .prompts import answer_labels as answer_labels, documents_of as documents_of, fence_for as fence_for
from .prompts import fenced as fenced, material_of as material_of, prompt_file as prompt_file, prompt_for as prompt_for
from .prompts import transcript_of as transcript_of
from .request_ledger import Lease as Lease, RequestLedger as RequestLedger
from .scripted import ScriptedJudge as ScriptedJudge, ScriptedModel as ScriptedModel
from .model import ModelSettings as ModelSettings
from .streaming import CUT_OFF as CUT_OFF, ReplyStream as ReplyStream, stream_reply as stream_reply
from .streaming import StreamingChat as StreamingChat, StreamingClient as StreamingClient
from .wrappers import Cached as Cached, decode_reply as decode_reply, Limit as Limit, Limited as Limited
from .wrappers import reply_key as reply_key, reply_row as reply_row, Retrying as Retrying
from .client import TIMEOUT_SECONDS as TIMEOUT_SECONDS
