"""The one setting that reaches verl's processes beside its configuration."""

SETTINGS = "WMLAB_GRPO"
"""Environment variable: JSON with ``std_floor`` and ``max_failed`` of :mod:`wmlab.training.verl_plugin`."""
