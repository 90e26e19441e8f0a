from .worker_pool import cores as cores, ONE_THREAD as ONE_THREAD, PYTHON as PYTHON, WorkerLost as WorkerLost
from .worker_pool import WorkerPool as WorkerPool, WorkerThreads as WorkerThreads
