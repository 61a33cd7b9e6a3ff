"""The pieces of Python source that ``transcoder.py`` joins to one function for each relation version.

In: nothing; each piece has places for what differs by table and column. Out: text. What stands in braces is filled in
by ``str.format``, so braces of the generated code itself are doubled.
"""

HEAD = """
def encode(data, at{arguments}):
    exceptional = None
    unchanged = ()
    try:
        (count,) = unpack_count(data, at)
        if count != {columns}:
            raise ProtocolError(f"a tuple of {{count}} fields for the {columns} columns of {table}")
        at += 2
"""
# Kind and length in one step; the last fields may be nulls of one byte, with less than that left.
FIELD_HEAD = """
        kind, size = unpack_field(data, at)
        if kind == 116:
            at += 5
"""
LAST_FIELD_HEAD = """
        kind = data[at]
        if kind == 116:
            (size,) = unpack_length(data, at + 1)
            at += 5
"""
LAST_FIELDS = 4
BINARY = """
        if kind == 98:
            {size}at += 5
            end = at + size
            {value}
            at = end
        el"""
LAST_SIZE = "(size,) = unpack_length(data, at + 1)\n            "
# One look-up for a value that was met before (``label_finders.py``).
LABELS = """\
if text not in known_{0}:
    find_{0}(text)"""
BINARY_LABELS = """\
text = data[at:end]
if text not in known_binary_{0}:
    find_binary_{0}(text)"""
FIELD = """
            end = at + size
            text = data[at:end]
            at = end
            {value}
        elif kind == 110:
            c{i} = NULL
            at += 1
        elif kind == 117:
            c{i} = NULL
            unchanged += ({name!r},)
            at += 1
        else:
            raise ProtocolError(f"unknown kind of field {{kind}} in {table}")
"""
TAIL = """
        if at != len(data):
            raise ProtocolError(f"a tuple of {table} ends at {{at}} of {{len(data)}} bytes")
    except (IndexError, KeyError, ValueError, StructError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"malformed tuple of {table}: {{type(error).__name__}}") from None
"""
ANY = """
    return EncodedTuple(b"".join(({row})), {key}, unchanged, exceptional)
"""
PLAIN = """
    if unchanged or exceptional is not None:
        return None
    ordinal_bytes = SHORT[ordinal << 1] if 0 <= ordinal < 0x2000 else long_bytes(ordinal)
    return {key}, b"".join((ENVELOPE_HEAD, {row} part, transaction, ordinal_bytes, rest))
"""

LINE_HEAD = """
def encode(line, part):
    exceptional = None
    values = {values}
    if BACKSLASH in line:
        values = unescaped(values)
    try:
        if len(values) != {columns} or line[-1:] != END:
            raise ProtocolError(f"a COPY line of {{len(values)}} values for the {columns} columns of {table}")
"""
LINE_FIELD = """
        text = values[{i}]
        if text is None:
            c{i} = NULL
        else:
            size = len(text)
            {value}
"""
LINE_TAIL = """
    except (IndexError, KeyError, ValueError, StructError, OverflowError, RecursionError) as error:
        raise ProtocolError(f"malformed COPY line of {table}: {{type(error).__name__}}") from None
    if exceptional is not None:
        return None
    return {key}, b"".join((ENVELOPE_HEAD, {row}part))
"""
