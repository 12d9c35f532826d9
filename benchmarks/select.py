"""Selecting from 10^8 scores with class floors, against a numpy sort and DuckDB: see `_selection.py`, which it runs.

It has a file of its own because Python finds this one first where a script in this folder, or anything it imports,
asks for the standard library's `select`.
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

if __name__ == "select":
    here = Path(__file__).resolve().parent
    spec = PathFinder.find_spec("select", [folder for folder in sys.path if Path(folder).resolve() != here])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["select"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["select"])
else:
    from _selection import main

    main(__file__)
