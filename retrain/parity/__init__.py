"""Whether backends train on the same: what each gives to its loss, compared row by row."""

from retrain.parity.comparison import RowDifference, row_differences
from retrain.parity.recorded import Recorded, RecordedOrder, read_recorded
from retrain.parity.rows import LossReading, LossRow, digest
from retrain.parity.weights import WeightComparison, compare_weights

__all__ = [
    "LossReading",
    "LossRow",
    "Recorded",
    "RecordedOrder",
    "RowDifference",
    "WeightComparison",
    "compare_weights",
    "digest",
    "read_recorded",
    "row_differences",
]
