"""`python -m paredown` is `paredown`."""

from __future__ import annotations

from paredown.cli import main

main()
