from .ask_judge import Judged as Judged, judging_signature as judging_signature, questions_for as questions_for
from .ask_judge import SAMPLES_AT_ONCE as SAMPLES_AT_ONCE
from .capability_check import attacks as attacks, best_mode as best_mode, insert_attack as insert_attack
from .capability_check import probe as probe
from .context_window import fit_to_context as fit_to_context, MARGIN as MARGIN, room_for as room_for
from .context_window import room_left as room_left, truncated_share as truncated_share
from .embedders import DEFAULT as DEFAULT, Embedder as Embedder, is_remote as is_remote
from .embedders import open_embedder as open_embedder
from .factory import ClientOptions as ClientOptions, open_judge as open_judge
from .factory import open_streaming as open_streaming
from .factory import open_uncached as open_uncached
from .judges.chat_judges import IN_PROCESS_LOGPROBS as IN_PROCESS_LOGPROBS, read_first_token as read_first_token
from .judges.chat_judges import TOP_LOGPROBS as TOP_LOGPROBS
from .judges.recorded import JUDGEMENTS_FILE as JUDGEMENTS_FILE, NOT_RECORDED as NOT_RECORDED
from .judges.recorded import question_of as question_of, read_recordings as read_recordings
from .judges.recorded import recorded_item as recorded_item, RecordedAnswers as RecordedAnswers
from .judges.recorded import RecordedJudge as RecordedJudge
from .likelihood import Likelihood as Likelihood, LikelihoodModel as LikelihoodModel
from .likelihood import LikelihoodRequest as LikelihoodRequest, LikelihoodResult as LikelihoodResult
from .likelihood import passage_hash as passage_hash
from .list_replies import ask_for_list as ask_for_list, ListForm as ListForm, NO_LIST as NO_LIST
from .list_replies import stand_in_twice as stand_in_twice, strict_schema as strict_schema
from .list_replies import unfenced as unfenced
from .model import (
    Answer as Answer,
    CallFailed as CallFailed,
    Caps as Caps,
    ChatMessage as ChatMessage,
    ChatModel as ChatModel,
)
from .model import DEFAULT_URL as DEFAULT_URL, EMBEDDED as EMBEDDED, estimated_usage as estimated_usage
from .model import Failure as Failure, GGUF as GGUF, HF as HF, in_process as in_process
from .model import IN_PROCESS_CONTEXT as IN_PROCESS_CONTEXT, in_requests as in_requests, Judge as Judge
from .model import located_model as located_model, MADE as MADE, ModelSettings as ModelSettings
from .model import NamedModel as NamedModel, own_addresses as own_addresses, Prompt as Prompt, Reply as Reply
from .model import Unanswered as Unanswered
from .model import URL_VARIABLE as URL_VARIABLE, Usage as Usage
from .prompts import answer_labels as answer_labels, documents_of as documents_of, fence_for as fence_for
from .prompts import fenced as fenced, prompt_file as prompt_file, transcript_of as transcript_of
from .requests.batching import Batch as Batch, batch_files as batch_files, BatchChat as BatchChat
from .requests.batching import BatchEndpoint as BatchEndpoint, GRACE as GRACE, may_have_started as may_have_started
from .requests.batching import RETRYABLE as RETRYABLE, UNCONFIRMED as UNCONFIRMED
from .requests.budget import Budget as Budget, is_unsent as is_unsent, open_budget as open_budget
from .requests.client import chat_request_of as chat_request_of, check_endpoint as check_endpoint
from .requests.client import TIMEOUT_SECONDS as TIMEOUT_SECONDS
from .requests.drivers import memory_models as memory_models, Models as Models, OnAnswer as OnAnswer
from .requests.drivers import plan_range as plan_range, run as run
from .requests.exchange import Plan as Plan
from .requests.flow import as_finished as as_finished, ASSISTANT as ASSISTANT, drive as drive, EMBEDDER as EMBEDDER
from .requests.flow import EmbeddingText as EmbeddingText, FINDER as FINDER, Flow as Flow, IN_BATCH as IN_BATCH
from .requests.flow import JUDGE as JUDGE, LIKELIHOOD as LIKELIHOOD, ModelInfo as ModelInfo, ModelQuery as ModelQuery
from .requests.flow import NEVER_SENT as NEVER_SENT, NOT_APPLICABLE as NOT_APPLICABLE, NOT_ASKED as NOT_ASKED
from .requests.flow import NOT_YET as NOT_YET, OUT_OF_BUDGET as OUT_OF_BUDGET, PromptFlow as PromptFlow
from .requests.flow import Questions as Questions, Request as Request, SCORER as SCORER, start as start
from .requests.flow import STORE as STORE, StoreRead as StoreRead, StoreWrite as StoreWrite, to_role as to_role
from .requests.flow import together as together, USER as USER, wait as wait, without_requests as without_requests
from .requests.flow import WRITER as WRITER
from .requests.redacting import address_of as address_of, RedactedChat as RedactedChat, redactor_for as redactor_for
from .requests.reply_parsing import check_answer as check_answer
from .requests.request_ledger import RequestLedger as RequestLedger
from .requests.streaming import ReplyStream as ReplyStream, stream_reply as stream_reply
from .requests.streaming import StreamingClient as StreamingClient
from .requests.web_request import send_request as send_request
from .requests.exchange import usage_row as usage_row
from .requests.wrappers import reply_row as reply_row
from .scripted import ScriptedJudge as ScriptedJudge, ScriptedModel as ScriptedModel
from .model import judge_modes as judge_modes
