"""Clusters of directions: spherical k-means, its passes over a source, and kernels that find the nearest centroid."""

from __future__ import annotations

__all__: list[str] = []  # its modules are used by name
