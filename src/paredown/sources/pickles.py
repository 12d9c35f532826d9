"""Pickles that hold plain containers and arrays of bytes, decoded without ever calling what a pickle names.

CIFAR's Python form is a pickle, and unpickling can run anything: even numpy's own `ndarray`, called with arguments of a
file's choosing, corrupts memory. So the opcodes are walked here, one by one. Those that make containers, text, bytes
and numbers are carried out; the names that numpy's arrays are pickled under become inert stand-ins, which hold the
arguments they are given; and any other opcode or name is refused. An array is made only from a whole description: one
byte per element, a shape, and exactly as many bytes.
"""

from __future__ import annotations

import math
import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.reading import MEMORY, damaged, read_bytes


def plain_pickle(file: Path, *, memory: int | None = MEMORY) -> Any:
    """What a pickle holds, if that is plain containers, numbers, text and arrays of uint8; anything else is refused."""
    data = read_bytes(file, "CIFAR file", memory=memory, remedy=_REMEDY)
    with damaged(file, "CIFAR file", remedy=_REMEDY):
        return _Machine().run(data)


_REMEDY = "Fetch it again."


class _RefusedError(Exception):
    """The pickle holds something else than CIFAR does."""


class _Name(NamedTuple):
    """A stand-in for what a pickle would import."""

    module: str
    name: str


@dataclass
class _Type:
    """A stand-in for numpy's dtype, of which only that of bytes is known."""

    name: Any


class _Array:
    """A stand-in for an array; its contents come with the opcode BUILD."""

    value: NDArray[np.uint8] | None = None


_RECONSTRUCT = {
    _Name("numpy.core.multiarray", "_reconstruct"),
    _Name("numpy._core.multiarray", "_reconstruct"),
}
_NDARRAY, _DTYPE, _ENCODE = _Name("numpy", "ndarray"), _Name("numpy", "dtype"), _Name("_codecs", "encode")
_KNOWN = {*_RECONSTRUCT, _NDARRAY, _DTYPE, _ENCODE}
_MARK = object()


class _Machine:
    """The few opcodes of CIFAR's files, and of arrays as numpy pickles them in protocols 0 to 4."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return _finished(self.stack.pop())
            if opcode.name in _VALUES:
                self.stack.append(_VALUES[opcode.name](argument))
            elif opcode.name in _ACTIONS:
                _ACTIONS[opcode.name](self, argument)
            else:
                raise _RefusedError(f"it has the opcode {opcode.name}, which is refused")
        raise _RefusedError("it ends early")

    def items(self) -> list[Any]:
        """What lies above the topmost mark."""
        items: list[Any] = []
        while (item := self.stack.pop()) is not _MARK:
            items.append(item)
        return items[::-1]

    def put(self, place: int) -> None:
        self.memo[place] = self.stack[-1]

    def get(self, place: int) -> None:
        self.stack.append(self.memo[place])

    def make_tuple(self, length: int) -> None:
        self.stack[-length:] = [tuple(self.stack[-length:])]

    def extend(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], list):
            raise _RefusedError("it appends to what is not a list")
        self.stack[-1].extend(items)

    def update(self, items: list[Any]) -> None:
        if not isinstance(self.stack[-1], dict):
            raise _RefusedError("it sets items of what is not a dictionary")
        self.stack[-1].update(_dictionary(items))

    def name(self, module: Any, name: Any) -> None:
        found = _Name(_text(module), _text(name))
        if found not in _KNOWN:
            raise _RefusedError(f"it asks for {found.module}.{found.name}, which is refused")
        self.stack.append(found)

    def stack_name(self) -> None:
        name, module = self.stack.pop(), self.stack.pop()
        self.name(module, name)

    def call(self) -> None:
        """Where a pickle would call something: nothing is called, and what stands for its result is made."""
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise _RefusedError("it calls what is no function")
        if function in _RECONSTRUCT and arguments[0] == _NDARRAY:
            self.stack.append(_Array())
        elif function == _DTYPE:
            self.stack.append(_Type(_text(arguments[0])))
        elif function == _ENCODE and _text(arguments[1]) == "latin1":
            self.stack.append(arguments[0].encode("latin1"))
        else:
            raise _RefusedError(f"it calls {function.module}.{function.name} in a way that is refused")

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, _Array):
            target.value = _array(*state)
        elif not isinstance(target, _Type):
            raise _RefusedError("it sets the state of what has none")


def _array(version: Any, shape: Any, kind: Any, fortran: Any, data: Any) -> NDArray[np.uint8]:
    """An array of bytes from its description, all of which must fit together."""
    if not isinstance(kind, _Type) or kind.name != "u1":
        raise _RefusedError(f"it has an array of {getattr(kind, 'name', None)!r}, which is refused; CIFAR has uint8")
    data = data.encode("latin1") if isinstance(data, str) else data
    whole = isinstance(shape, tuple) and all(type(length) is int and length >= 0 for length in shape)
    if version != 1 or not whole or not isinstance(data, bytes) or len(data) != math.prod(shape):
        raise _RefusedError("it has an array whose shape and bytes do not match, which is refused")
    return np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


def _finished(value: Any) -> Any:
    """What was made, with the arrays in place of their stand-ins where CIFAR has them."""
    if isinstance(value, _Array):
        return value.value
    if isinstance(value, dict):
        return {key: item.value if isinstance(item, _Array) else item for key, item in value.items()}
    return value


def _dictionary(items: list[Any]) -> dict[Any, Any]:
    # A deeply nested key would overflow the stack.
    if not all(isinstance(key, str | bytes | int) for key in items[::2]):
        raise _RefusedError("it has a dictionary whose keys are not text")
    return dict(zip(items[::2], items[1::2], strict=True))


def _text(value: Any) -> str:
    if not isinstance(value, str | bytes):
        raise _RefusedError("it has something else where a name belongs")
    return value if isinstance(value, str) else value.decode("latin1")


def _itself(argument: Any) -> Any:
    return argument


# Opcodes that put a value on the stack. Python 2's text is bytes, which genops shows as latin1.
_VALUES: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"), _itself),
    **dict.fromkeys(("UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"), _itself),
    **dict.fromkeys(("SHORT_BINBYTES", "BINBYTES", "BINBYTES8"), _itself),
    **dict.fromkeys(("STRING", "BINSTRING", "SHORT_BINSTRING"), lambda text: text.encode("latin1")),
    "NONE": lambda _: None,
    "NEWTRUE": lambda _: True,
    "NEWFALSE": lambda _: False,
    "EMPTY_DICT": lambda _: {},
    "EMPTY_LIST": lambda _: [],
    "EMPTY_TUPLE": lambda _: (),
    "MARK": lambda _: _MARK,
}
_ACTIONS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME"), lambda machine, _: None),
    **dict.fromkeys(("PUT", "BINPUT", "LONG_BINPUT"), _Machine.put),
    **dict.fromkeys(("GET", "BINGET", "LONG_BINGET"), _Machine.get),
    "MEMOIZE": lambda machine, _: machine.put(len(machine.memo)),
    "TUPLE1": lambda machine, _: machine.make_tuple(1),
    "TUPLE2": lambda machine, _: machine.make_tuple(2),
    "TUPLE3": lambda machine, _: machine.make_tuple(3),
    "TUPLE": lambda machine, _: machine.stack.append(tuple(machine.items())),
    "LIST": lambda machine, _: machine.stack.append(machine.items()),
    "DICT": lambda machine, _: machine.stack.append(_dictionary(machine.items())),
    "APPEND": lambda machine, _: machine.extend([machine.stack.pop()]),
    "APPENDS": lambda machine, _: machine.extend(machine.items()),
    "SETITEM": lambda machine, _: machine.update([machine.stack.pop() for _ in range(2)][::-1]),
    "SETITEMS": lambda machine, _: machine.update(machine.items()),
    "GLOBAL": lambda machine, names: machine.name(*names.split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.stack_name(),
    "REDUCE": lambda machine, _: machine.call(),
    "BUILD": lambda machine, _: machine.build(),
}
