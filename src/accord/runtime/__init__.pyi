from .worker_pool import cores as cores, ONE_THREAD as ONE_THREAD, WorkerLost as WorkerLost, WorkerPool as WorkerPool
from .worker_pool import WorkerThreads as WorkerThreads
