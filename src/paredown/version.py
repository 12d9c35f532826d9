"""The version, by itself: what records it must not import the package."""

__version__ = "0.1.0"
