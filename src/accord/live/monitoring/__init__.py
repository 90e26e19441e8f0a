"""Watching what is scored: days in sketches, alarms, and whoever is told; public names are those of `accord.live`."""
