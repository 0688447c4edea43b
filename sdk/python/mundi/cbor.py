"""Canonical CBOR (RFC 8949, section 4.2.1) of JSON values and bytes.

One value has one form: the shortest heads, definite lengths, keys sorted by length and then by bytes, the shortest float
that keeps the value. So two programs that keep the same values keep the same bytes.
"""

import math
import struct
from typing import Any

DEPTH_MAX = 64


def encode(value: Any) -> bytes:
    out = bytearray()
    _write(value, out)
    return bytes(out)


def decode(data: bytes) -> Any:
    value, at = _read(data, 0, DEPTH_MAX)
    if at != len(data):
        raise ValueError("bytes follow the value")
    return value


def _head(major: int, argument: int, out: bytearray) -> None:
    for short, size in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 24:
            out.append(major << 5 | argument)
            return
        if argument < 1 << 8 * size:
            out.append(major << 5 | short)
            out += argument.to_bytes(size, "big")
            return
    raise ValueError("an integer beyond 64 bits")


def _write(value: Any, out: bytearray) -> None:
    if value is None:
        out.append(0xF6)
    elif value is True:
        out.append(0xF5)
    elif value is False:
        out.append(0xF4)
    elif isinstance(value, int):
        _head(0, value, out) if value >= 0 else _head(1, -1 - value, out)
    elif isinstance(value, float):
        _float(value, out)
    elif isinstance(value, (bytes, bytearray)):
        _head(2, len(value), out)
        out += value
    elif isinstance(value, str):
        text = value.encode()
        _head(3, len(text), out)
        out += text
    elif isinstance(value, (list, tuple)):
        _head(4, len(value), out)
        for item in value:
            _write(item, out)
    elif isinstance(value, dict):
        _head(5, len(value), out)
        for key, item in sorted(((key.encode(), item) for key, item in value.items()), key=lambda e: (len(e[0]), e[0])):
            _head(3, len(key), out)
            out += key
            _write(item, out)
    else:
        raise TypeError(f"a {type(value).__name__} has no form in a world")


def _float(value: float, out: bytearray) -> None:
    if not math.isfinite(value):
        raise ValueError("a number that is none")
    for first, form in ((0xF9, ">e"), (0xFA, ">f"), (0xFB, ">d")):
        try:
            packed = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.unpack(form, packed)[0] == value:
            out.append(first)
            out += packed
            return


def _take(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    if at + size > len(data):
        raise ValueError("the value ends too early")
    return data[at : at + size], at + size


def _read_head(data: bytes, at: int) -> tuple[int, int, int, int]:
    first, at = _take(data, at, 1)
    major, short = first[0] >> 5, first[0] & 31
    if short < 24:
        return major, short, short, at
    if short > 27:
        raise ValueError("a length that is open")
    argument, at = _take(data, at, 1 << (short - 24))
    return major, short, int.from_bytes(argument, "big"), at


def _read(data: bytes, at: int, depth_left: int) -> tuple[Any, int]:
    if depth_left == 0:
        raise ValueError("nested too deeply")
    major, short, argument, at = _read_head(data, at)
    if major == 0:
        return argument, at
    if major == 1:
        return -1 - argument, at
    if major == 2:
        return _take(data, at, argument)
    if major == 3:
        text, at = _take(data, at, argument)
        return text.decode(), at
    if major == 4:
        items = []
        for _ in range(argument):
            item, at = _read(data, at, depth_left - 1)
            items.append(item)
        return items, at
    if major == 5:
        entries = {}
        for _ in range(argument):
            key_major, _, length, at = _read_head(data, at)
            if key_major != 3:
                raise ValueError("a key that is no text")
            key, at = _take(data, at, length)
            entries[key.decode()], at = _read(data, at, depth_left - 1)
        return entries, at
    simple = {20: False, 21: True, 22: None}
    if major == 7 and short in simple:
        return simple[short], at
    if major == 7 and short in (25, 26, 27):
        form, size = {25: (">e", 2), 26: (">f", 4), 27: (">d", 8)}[short]
        return struct.unpack(form, argument.to_bytes(size, "big"))[0], at
    raise ValueError("tags have no JSON form")
