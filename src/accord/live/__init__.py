"""Live scoring: messages in as they are said, scores out, in this process, behind a service, or along a log."""

from accord.live.said import Said, said_from
from accord.live.scorer import LiveScorer, Taken, live_evaluator, live_metrics

__all__ = ["LiveScorer", "Said", "Taken", "live_evaluator", "live_metrics", "said_from"]
