"""Watching what is scored: means a system and a day at a time, what moved, and whom to tell."""

from accord.watching.alarms import Alarm, alarms, looks
from accord.watching.day import Day, DayMean
from accord.watching.rounds import Rounds
from accord.watching.watch import Watch, report, see_to, tell
from accord.watching.webhook import post

__all__ = ["Alarm", "Day", "DayMean", "Rounds", "Watch", "alarms", "looks", "post", "report", "see_to", "tell"]
