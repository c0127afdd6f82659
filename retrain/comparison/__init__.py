"""One configuration on several backends: what each framework is told for every key."""

from retrain.comparison.columns import Column, make_column
from retrain.comparison.comparison import Comparison, compare
from retrain.comparison.rows import Cell, Row, Standing, Told

__all__ = ["Cell", "Column", "Comparison", "Row", "Standing", "Told", "compare", "make_column"]
