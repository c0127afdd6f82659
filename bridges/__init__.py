"""The four bridges between the core and any training framework."""

from bridges.data_format import DataFormatBridge
from bridges.environment import EnvironmentBridge
from bridges.limits import EpisodeLimits
from bridges.policy import FailureAction, FailurePolicy
from bridges.reward import RewardBridge
from bridges.rollout import RolloutBridge
from bridges.rollout_settings import RolloutSettings

__all__ = [
    "DataFormatBridge",
    "EnvironmentBridge",
    "EpisodeLimits",
    "FailureAction",
    "FailurePolicy",
    "RewardBridge",
    "RolloutBridge",
    "RolloutSettings",
]
