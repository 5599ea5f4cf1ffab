"""Sizes that change, padded to buckets: docs/compile.md says what users see, _builder.py how it works."""

from torch_pjrt.compile.padding._bucketed import Bucketed

__all__ = ["Bucketed"]
