"""One YAML file describes a run: strict, resolved, and explained at the line that is wrong."""

from retrain.config.algorithm import AlgorithmConfig
from retrain.config.dump import dump_config
from retrain.config.hyperparameters import BRIDGE_OPTIONS, Hyperparameters
from retrain.config.load import load_config
from retrain.config.loggers import LoggersConfig
from retrain.config.peft import PeftConfig
from retrain.config.redact import REDACTED, is_credential, redact, redact_text
from retrain.config.rewards import RewardComponentConfig, RewardSetupConfig
from retrain.config.rollout import ExecutorConfig, FailureConfig, RolloutConfig
from retrain.config.run import RunConfig, StageConfig
from retrain.config.sections import (
    ClusterConfig,
    EnvironmentConfig,
    EvaluationConfig,
    ModelConfig,
    PromptSourceConfig,
    RenderingConfig,
    SlimeLaptopConfig,
)
from retrain.config.vocabulary import ROWS

__all__ = [
    "BRIDGE_OPTIONS",
    "REDACTED",
    "ROWS",
    "AlgorithmConfig",
    "ClusterConfig",
    "EnvironmentConfig",
    "EvaluationConfig",
    "ExecutorConfig",
    "FailureConfig",
    "Hyperparameters",
    "LoggersConfig",
    "ModelConfig",
    "PeftConfig",
    "PromptSourceConfig",
    "RenderingConfig",
    "RewardComponentConfig",
    "RewardSetupConfig",
    "RolloutConfig",
    "RunConfig",
    "SlimeLaptopConfig",
    "StageConfig",
    "dump_config",
    "is_credential",
    "load_config",
    "redact",
    "redact_text",
]
