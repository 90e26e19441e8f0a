from .worker_pool import cores as cores, ONE_THREAD as ONE_THREAD, pickled as pickled, Worker as Worker
from .worker_pool import WorkerLost as WorkerLost, WorkerPool as WorkerPool, WorkerThreads as WorkerThreads
