"""The missing ``hashCode`` of ScienceWorld's objects, added to their class when the JVM starts.

``scienceworld.struct.EnvObject`` compares by its number (``uuid``) but has no hash of its own, so its
objects sit in hash sets by identity: in an order that differs from load to load. The installed class file
gets one method more, ``public int hashCode() { return (int) uuid(); }``, and is defined in the JVM before
the simulator loads its own. Layout of class files: Java Virtual Machine Specification, chapter 4.
"""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

from wmlab.domains.java import Jvm
from wmlab.errors import EnvironmentFailure

CLASS = "scienceworld/struct/EnvObject"
_WIDTHS = {
    3: 4,
    4: 4,
    5: 8,
    6: 8,
    7: 2,
    8: 2,
    9: 4,
    10: 4,
    11: 4,
    12: 4,
    15: 3,
    16: 2,
    17: 4,
    18: 4,
    19: 2,
    20: 2,
}
_UTF8, _METHODREF, _NAME_AND_TYPE = 1, 10, 12
_WIDE = (5, 6)  # long and double constants take two places


def patched_class(jar: Path) -> bytes:
    """The class with ``hashCode``. Raises EnvironmentFailure when the jar's class is not as expected."""
    try:
        with zipfile.ZipFile(jar) as archive:
            return add_hash(archive.read(f"{CLASS}.class"))
    except (OSError, LookupError, ValueError, struct.error, zipfile.BadZipFile) as error:
        raise EnvironmentFailure(f"{jar}: {CLASS} cannot be read ({error})") from None


def install(jvm: Jvm, jar: Path) -> None:
    """Define the patched class in a JVM, before the simulator is first used there; again is no error."""
    with jvm.calling("hash codes"):
        lang, gateway = jvm.api.java.lang, jvm.gateway
        loader = lang.ClassLoader.getSystemClassLoader()
        find = _method(gateway, lang, "findLoadedClass", (lang.Class.forName("java.lang.String"),))
        if find.invoke(loader, _array(gateway, lang.Object, (CLASS.replace("/", "."),))) is not None:
            return
        data, integer = patched_class(jar), lang.Integer.TYPE
        kinds = (lang.Class.forName("java.lang.String"), lang.Class.forName("[B"), integer, integer)
        define = _method(gateway, lang, "defineClass", kinds)
        define.invoke(loader, _array(gateway, lang.Object, (CLASS.replace("/", "."), data, 0, len(data))))


def _method(gateway: Any, lang: Any, name: str, kinds: tuple[Any, ...]) -> Any:
    found = lang.Class.forName("java.lang.ClassLoader").getDeclaredMethod(
        name, _array(gateway, lang.Class, kinds)
    )
    found.setAccessible(True)
    return found


def _array(gateway: Any, kind: Any, values: tuple[Any, ...]) -> Any:
    array = gateway.new_array(kind, len(values))
    for index, value in enumerate(values):
        array[index] = value
    return array


def add_hash(data: bytes) -> bytes:
    """A class file with ``int hashCode() { return (int) this.uuid(); }``. Raises ValueError, LookupError
    or struct.error when the class file is broken."""
    magic, _, count = struct.unpack_from(">IIH", data)
    if magic != 0xCAFEBABE:
        raise ValueError("not a class file")
    end = 10
    index = 1
    while index < count:
        tag = data[end]
        end += 3 + struct.unpack_from(">H", data, end + 1)[0] if tag == _UTF8 else 1 + _WIDTHS[tag]
        index += 2 if tag in _WIDE else 1
    this_class, _, interfaces = struct.unpack_from(">2xHHH", data, end)
    fields_at = end + 8 + 2 * interfaces
    methods_at = fields_at + 2
    for _ in range(struct.unpack_from(">H", data, fields_at)[0]):
        methods_at = _skip_member(data, methods_at)
    methods = struct.unpack_from(">H", data, methods_at)[0]

    constants = [_utf8("hashCode"), _utf8("()I"), _utf8("Code"), _utf8("uuid"), _utf8("()J")]
    hash_code, returns_int, code, uuid, returns_long = range(count, count + 5)
    constants.append(struct.pack(">BHH", _NAME_AND_TYPE, uuid, returns_long))
    constants.append(struct.pack(">BHH", _METHODREF, this_class, count + 5))
    # aload_0; invokevirtual uuid; l2i; ireturn
    body = struct.pack(">BBHBB", 0x2A, 0xB6, count + 6, 0x88, 0xAC)
    attribute = struct.pack(">HHI", 2, 1, len(body)) + body + struct.pack(">HH", 0, 0)
    method = struct.pack(">HHHH", 0x0001, hash_code, returns_int, 1)
    method += struct.pack(">HI", code, len(attribute)) + attribute
    return b"".join(
        (
            data[:8],
            struct.pack(">H", count + len(constants)),
            data[10:end],
            *constants,
            data[end:methods_at],
            struct.pack(">H", methods + 1),
            method,
            data[methods_at + 2 :],
        )
    )


def _utf8(text: str) -> bytes:
    return struct.pack(">BH", _UTF8, len(text)) + text.encode("ascii")


def _skip_member(data: bytes, position: int) -> int:
    """Behind the field or method at ``position``."""
    attributes = struct.unpack_from(">H", data, position + 6)[0]
    position += 8
    for _ in range(attributes):
        position += 6 + struct.unpack_from(">I", data, position + 2)[0]
    return position
