"""Supports Spark data frames: estimates from them, and tables of messages. See docs/spark.md."""

from headcount.data.spark.engine import SparkEngine
from headcount.data.spark.messages import randomized, tallied

__all__ = ["SparkEngine", "randomized", "tallied"]
