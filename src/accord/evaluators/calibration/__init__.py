"""Personalised calibration (Hashemi et al., ACL 2024): a judge's answers in, one distribution per annotator out."""

from accord.evaluators.calibration.calibration import Calibration

__all__ = ["Calibration"]
