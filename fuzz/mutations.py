"""Ways to damage a file: of any kind, and some that know a format well enough to get past its checksums."""

from __future__ import annotations

import gzip
import io
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable

Mutation = Callable[[bytes, random.Random], bytes]

_NUMBERS = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**63, 2**64 - 1]
_WORDS = [
    b"-1", b"0", b"1e999", b"NaN", b"99999999999999999999", b"1000000000000", b"null", b"[]", b"{}", b'""', b"true",
    b"\xc2\xb2", b"\xff", b"\x00", b"\x1b[31m", b"x" * 20_000, b"../..", b"/dev/zero", b"'", b'"', b",", b"\n",
]  # fmt: skip


def damage(data: bytes, rng: random.Random) -> bytes:
    """A file with one to four random changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        data = rng.choice(_CHANGES)(data, rng)
    return data


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8))):
        if changed:
            changed[_place(changed, rng)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_bytes(data: bytes, rng: random.Random) -> bytes:
    start, end = _range(data, rng, 16)
    return data[:start] + rng.choice((b"\0", b"\xff", rng.randbytes(1))) * (end - start) + data[end:]


def _truncate(data: bytes, rng: random.Random) -> bytes:
    return data[: _place(data, rng)]


def _remove(data: bytes, rng: random.Random) -> bytes:
    start, end = _range(data, rng, 64)
    return data[:start] + data[end:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = _range(data, rng, 64)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[end:]


def _splice(data: bytes, rng: random.Random) -> bytes:
    start, end = _range(data, rng, 256)
    place = _place(data, rng)
    return data[:place] + data[start:end] + data[place + end - start :]


def _swap(data: bytes, rng: random.Random) -> bytes:
    (a, b), (c, d) = sorted((_range(data, rng, 128), _range(data, rng, 128)))
    return data if b > c else data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _set_number(data: bytes, rng: random.Random) -> bytes:
    """Overwrite what may be a length or an offset."""
    width = rng.choice((1, 2, 4, 8))
    place = _place(data, rng) & ~(width - 1 if rng.random() < 0.5 else 0)
    order = rng.choice(("little", "big"))
    old = int.from_bytes(data[place : place + width], order)  # type: ignore[arg-type]
    number = rng.choice((*_NUMBERS, old + 1, old - 1, old * 2, -old)) % 2 ** (8 * width)
    return data[:place] + number.to_bytes(width, order) + data[place + width :]  # type: ignore[arg-type]


def _set_word(data: bytes, rng: random.Random) -> bytes:
    """Replace a number or a word of text: of JSON, of CSV, of the header of an array."""
    words = list(re.finditer(rb"-?\d+(?:\.\d+)?|[A-Za-z_]{2,}", data[:20_000]))
    if not words:
        return _flip(data, rng)
    word = rng.choice(words)
    new = rng.choice(_WORDS)
    if rng.random() < 0.5:  # of the same length, so that what follows stays in its place
        new = new[: len(word[0])].ljust(len(word[0]))
    return data[: word.start()] + new + data[word.end() :]


def _swap_words(data: bytes, rng: random.Random) -> bytes:
    words = list(re.finditer(rb"[^,;:\s{}\[\]\"']+", data[:20_000]))
    if len(words) < 2:
        return _flip(data, rng)
    first, second = sorted(rng.sample(words, 2), key=re.Match.start)
    return (
        data[: first.start()] + second[0] + data[first.end() : second.start()] + first[0] + data[second.end() :]
    )  # fmt: skip


_CHANGES: list[Mutation] = [
    _flip, _flip, _set_bytes, _truncate, _remove, _repeat, _splice, _swap, _set_number, _set_number, _set_word,
    _swap_words,
]  # fmt: skip


def _place(data: bytes | bytearray, rng: random.Random) -> int:
    """Somewhere in a file, more often near its ends, where formats keep what describes the rest."""
    length = max(1, len(data))
    near = rng.random()
    if near < 0.35:
        return rng.randrange(min(256, length))
    return length - 1 - rng.randrange(min(512, length)) if near < 0.6 else rng.randrange(length)


def _range(data: bytes, rng: random.Random, longest: int) -> tuple[int, int]:
    start = _place(data, rng)
    return start, min(len(data), start + rng.randint(1, longest))


# --- formats whose checksums would stop most of the above ----------------------------------------------------------


def inside_zip(data: bytes, rng: random.Random) -> bytes:
    """Damage a member of a zip and pack it again."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(info, archive.read(info)) for info in archive.infolist()]
    chosen = rng.randrange(len(members))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for number, (info, content) in enumerate(members):
            archive.writestr(info.filename, damage(content, rng) if number == chosen else content)
    return stream.getvalue()


def inside_gzip(data: bytes, rng: random.Random) -> bytes:
    """Damage what is compressed."""
    return gzip.compress(damage(gzip.decompress(data), rng), compresslevel=1)


def tar_header(data: bytes, rng: random.Random) -> bytes:
    """Damage a header of a tar, and put its checksum right."""
    headers = [place for place in range(0, len(data) - 511, 512) if data[place + 257 : place + 262] == b"ustar"]
    place = rng.choice(headers)
    block = bytearray(data[place : place + 512])
    if rng.random() < 0.5:
        block[156] = rng.choice(b"0123456789ABDKLMNSVXgx\0\xff")  # what kind of member it is
    if rng.random() < 0.7:
        start, end = rng.choice(((0, 100), (124, 136), (345, 500), (386, 512)))
        block[start:end] = damage(bytes(block[start:end]), rng)[: end - start].ljust(end - start, b"\0")
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return data[:place] + bytes(block) + data[place + 512 :]


def png_chunk(data: bytes, rng: random.Random) -> bytes:
    """Damage a chunk of a PNG, and put its checksum right."""
    chunks: list[tuple[bytes, bytes]] = []
    place = 8
    while place + 8 <= len(data):
        (length,) = struct.unpack(">I", data[place : place + 4])
        chunks.append((data[place + 4 : place + 8], data[place + 8 : place + 8 + length]))
        place += 12 + length
    chosen = rng.randrange(len(chunks))
    chunks[chosen] = (chunks[chosen][0], damage(chunks[chosen][1], rng))
    if rng.random() < 0.2:
        chunks.insert(rng.randrange(len(chunks)), rng.choice(chunks))
    packed = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return data[:8] + b"".join(packed)
