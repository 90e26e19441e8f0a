from .ask_judge import AT_ONCE as AT_ONCE, judge_all as judge_all, Judged as Judged
from .ask_judge import judging_signature as judging_signature, Named as Named, questions_for as questions_for
from .batching import AGAIN as AGAIN, Batch as Batch, batch_files as batch_files, Batched as Batched
from .batching import BatchEndpoint as BatchEndpoint, GRACE as GRACE, may_have_started as may_have_started
from .batching import read_batch as read_batch, UNCONFIRMED as UNCONFIRMED
from .budget import Budget as Budget, Budgeted as Budgeted, Caps as Caps, is_unsent as is_unsent
from .budget import load_prices as load_prices, Price as Price
from .capability_check import attacked as attacked, attacks as attacks, best_mode as best_mode, probe as probe
from .client import chat_request_of as chat_request_of, ChatCompletions as ChatCompletions
from .client import EmbeddingsEndpoint as EmbeddingsEndpoint, Texts as Texts
from .context_window import fitted as fitted, MARGIN as MARGIN, own_context as own_context, room_beside as room_beside
from .context_window import room_for as room_for, truncated_share as truncated_share, windowing as windowing
from .drivers import memory_models as memory_models, Models as Models, plan as plan, plan_range as plan_range
from .drivers import run as run, Step as Step
from .embedders import DEFAULT as DEFAULT, Embedder as Embedder, is_remote as is_remote, Local as Local
from .embedders import open_embedder as open_embedder, Remote as Remote
from .embedding_cache import embed as embed
from .exchange import Plan as Plan
from .factory import asked_on as asked_on, ClientOptions as ClientOptions, decided_endpoint_of as decided_endpoint_of
from .factory import endpoint_of as endpoint_of, MODES as MODES, open_batched as open_batched, open_chat as open_chat
from .factory import open_decided as open_decided, open_heard as open_heard, open_judge as open_judge
from .factory import open_likelihood as open_likelihood, open_uncached as open_uncached
from .flow import all_of as all_of, as_finished as as_finished, ask as ask, ASSISTANT as ASSISTANT, drive as drive
from .flow import EMBEDDER as EMBEDDER, FINDER as FINDER, Flow as Flow, IN_BATCH as IN_BATCH, JUDGE as JUDGE
from .flow import Known as Known, LIKELIHOOD as LIKELIHOOD, NEVER_SENT as NEVER_SENT, NOT_APPLICABLE as NOT_APPLICABLE
from .flow import NOT_ASKED as NOT_ASKED, NOT_YET as NOT_YET, nothing as nothing, OUT_OF_BUDGET as OUT_OF_BUDGET
from .flow import PromptFlow as PromptFlow, Questions as Questions, Request as Request, run_flow as run_flow
from .flow import SCORER as SCORER, start as start, STORE as STORE, StoreRead as StoreRead, StoreWrite as StoreWrite
from .flow import Text as Text, to as to, together as together, USER as USER, wait as wait, Who as Who, WRITER as WRITER
from .judges.decisions import Asked as Asked, decisions_request_of as decisions_request_of
from .judges.decisions import DecisionsRequest as DecisionsRequest
from .judges.logprobs import IN_PROCESS_LOGPROBS as IN_PROCESS_LOGPROBS, LogprobsJudge as LogprobsJudge
from .judges.logprobs import read_first_token as read_first_token, TOP_LOGPROBS as TOP_LOGPROBS
from .judges.recorded import JUDGEMENTS_FILE as JUDGEMENTS_FILE, NOT_RECORDED as NOT_RECORDED
from .judges.recorded import question_of as question_of, read_recordings as read_recordings
from .judges.recorded import recorded_item as recorded_item, RecordedJudge as RecordedJudge, Recording as Recording
from .judges.sampling import frequencies as frequencies, read_stated as read_stated, VerbalisedJudge as VerbalisedJudge
from .likelihood import Likelihood as Likelihood, LikelihoodModel as LikelihoodModel, Measured as Measured
from .likelihood import Passage as Passage, passage_hash as passage_hash
from .list_replies import ask_for_list as ask_for_list, Form as Form, listed as listed, PROSE as PROSE, strict as strict
from .list_replies import twice as twice
from .model import Answer as Answer, CallFailed as CallFailed, ChatMessage as ChatMessage, ChatModel as ChatModel
from .model import EMBEDDED as EMBEDDED, estimated_usage as estimated_usage, Failure as Failure, GGUF as GGUF, HF as HF
from .model import in_process as in_process, IN_PROCESS_CONTEXT as IN_PROCESS_CONTEXT, in_requests as in_requests
from .model import Judge as Judge, located_model as located_model, MADE as MADE, Prompt as Prompt, Reply as Reply
from .model import Unanswered as Unanswered, Usage as Usage
from .prompts import answer_labels as answer_labels, documents_of as documents_of, fence_for as fence_for
from .prompts import fenced as fenced, material_of as material_of, prompt_file as prompt_file, prompt_for as prompt_for
from .prompts import transcript_of as transcript_of
from .request_ledger import Lease as Lease, RequestLedger as RequestLedger
from .scripted import ScriptedJudge as ScriptedJudge, ScriptedModel as ScriptedModel
from .settings import Mode as Mode, ModelSettings as ModelSettings
from .streaming import CUT_OFF as CUT_OFF, Heard as Heard, Pieces as Pieces, streamed as streamed
from .streaming import StreamingChat as StreamingChat
from .wrappers import Cached as Cached, decode_reply as decode_reply, kept_key as kept_key, Limit as Limit
from .wrappers import Limited as Limited, Once as Once, paid_reply as paid_reply, Retrying as Retrying
