"""Lines of COPY's text format, as the server sends them."""

_ESCAPES = {b"\\": b"\\\\", b"\b": b"\\b", b"\f": b"\\f", b"\n": b"\\n", b"\r": b"\\r", b"\t": b"\\t", b"\v": b"\\v"}


def line_of(*values: bytes | None) -> bytes:
    """A row; None is a null."""
    return b"\t".join(rb"\N" if value is None else _escaped(value) for value in values) + b"\n"


def _escaped(value: bytes) -> bytes:
    return b"".join(_ESCAPES.get(bytes([byte]), bytes([byte])) for byte in value)
