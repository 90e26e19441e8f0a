from .worker_pool import cores as cores, ONE_THREAD as ONE_THREAD, pickled as pickled, PYTHON as PYTHON
from .worker_pool import Worker as Worker, WorkerLost as WorkerLost, WorkerPool as WorkerPool
from .worker_pool import WorkerThreads as WorkerThreads
