"""wmlab: text-based world models, from corpus to tables."""

__version__ = "0.1.0"
