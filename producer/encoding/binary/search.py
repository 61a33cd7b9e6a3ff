"""tsvector and tsquery: binary format to the text that Postgres prints.

Source: PostgreSQL ``tsvector.c``, ``tsquery.c``.
"""

from typing import NamedTuple

from walbridge.producer.pgoutput.wire import WireReader

_WEIGHTS = (b"", b"C", b"B", b"A")
_QUERY_WEIGHTS = ((8, b"A"), (4, b"B"), (2, b"C"), (1, b"D"))
_VALUE, _OPERATOR = 1, 2
_NOT, _AND, _OR, _PHRASE = 1, 2, 3, 4
_PRIORITY = {_NOT: 4, _AND: 2, _OR: 1, _PHRASE: 3}
_ALONE = 5
"""Of a value: above every operator's."""

Pieces = list["bytes | Pieces"]


def text_of_tsvector(data: bytes) -> bytes:
    wire = WireReader(data)
    entries = []
    for _ in range(wire.int32()):
        entry = _quoted(_string(wire))
        places = [wire.int16() for _ in range(wire.int16())]
        if places:
            entry += b":" + b",".join(b"%d" % (place & 0x3FFF) + _WEIGHTS[place >> 14 & 3] for place in places)
        entries.append(entry)
    wire.expect_end()
    return b" ".join(entries)


def _string(wire: WireReader) -> bytes:
    end = wire.data.index(b"\0", wire.at)
    text = wire.data[wire.at : end]
    wire.at = end + 1
    return text


def _quoted(text: bytes) -> bytes:
    return b"'" + text.replace(b"\\", b"\\\\").replace(b"'", b"''") + b"'"


class _Node(NamedTuple):
    """``operator`` is 0 for a value."""

    pieces: Pieces
    operator: int
    priority: int


def text_of_tsquery(data: bytes) -> bytes:
    """Operators stand before their operands, the right one first: read from the end, each finds its operands done."""
    wire = WireReader(data)
    items = [_item(wire) for _ in range(wire.int32())]
    wire.expect_end()
    done: list[_Node] = []
    for operator, value, distance in reversed(items):
        if not operator:
            done.append(_Node([value], 0, _ALONE))
        elif operator == _NOT:
            operand = done.pop()
            done.append(_Node([b"!", *_within(operand, _NOT)], _NOT, _PRIORITY[_NOT]))
        else:
            right, left = done.pop(), done.pop()
            done.append(_joined(left, operator, distance, right))
    if len(done) > 1:
        raise ValueError("a tsquery of two queries")
    return _flat(done[0].pieces) if done else b""


def _item(wire: WireReader) -> tuple[int, bytes, int]:
    """Operator or 0, value, distance."""
    if (kind := wire.byte()) == _VALUE:
        weights, prefix = wire.byte(), wire.byte()
        text = _quoted(_string(wire))
        marks = b"*" * (prefix != 0) + b"".join(mark for bit, mark in _QUERY_WEIGHTS if weights & bit)
        return 0, text + b":" + marks if weights or prefix else text, 0
    operator = wire.byte()
    if kind != _OPERATOR or operator not in _PRIORITY:
        raise ValueError("an unknown item of a tsquery")
    return operator, b"", wire.int16() if operator == _PHRASE else 0


def _joined(left: _Node, operator: int, distance: int, right: _Node) -> _Node:
    signs = {_AND: b" & ", _OR: b" | ", _PHRASE: b" <-> " if distance == 1 else b" <%d> " % distance}
    right_pieces = _within(right, operator, is_right=True)
    return _Node([*_within(left, operator), signs[operator], *right_pieces], operator, _PRIORITY[operator])


def _within(node: _Node, operator: int, *, is_right: bool = False) -> Pieces:
    """An operand, in parentheses if it binds less than the operator, or is a phrase on the right of another phrase."""
    phrase_in_phrase = is_right and operator == node.operator == _PHRASE
    if node.priority < _PRIORITY[operator] or phrase_in_phrase:
        return [b"( ", node.pieces, b" )"]
    return [node.pieces]


def _flat(pieces: Pieces) -> bytes:
    """All pieces joined, without recursion: a query may be as deep as it is long."""
    found: list[bytes] = []
    waiting: Pieces = [pieces]
    while waiting:
        piece = waiting.pop()
        if isinstance(piece, bytes):
            found.append(piece)
        else:
            waiting.extend(reversed(piece))
    return b"".join(found)
