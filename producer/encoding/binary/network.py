"""Addresses: binary format to the text that Postgres prints. Source: PostgreSQL ``network.c``, ``inet_net_ntop.c``."""

from walbridge.producer.pgoutput.wire import WireReader

_V4, _V6 = 2, 3
_BYTES = {_V4: 4, _V6: 16}


def text_of_inet(data: bytes) -> bytes:
    """inet and cidr; an inet whose netmask has all bits is printed without the netmask."""
    wire = WireReader(data)
    family, bits, is_cidr, size = wire.byte(), wire.byte(), wire.byte(), wire.byte()
    address = wire.take(size)
    wire.expect_end()
    if _BYTES.get(family) != size or bits > 8 * size:
        raise ValueError("an address of another size")
    text = _dotted(address) if family == _V4 else _colons(address)
    return (text if bits == 8 * size and not is_cidr else f"{text}/{bits}").encode()


def _dotted(address: bytes) -> str:
    return ".".join(map(str, address))


def _colons(address: bytes) -> str:
    """An IPv6 address without the first of its longest runs of two or more zero words; IPv4 in it is printed dotted."""
    words = [int.from_bytes(address[n : n + 2], "big") for n in range(0, 16, 2)]
    start, length = _longest_zeros(words)
    if start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return f"::{'ffff:' if length == 5 else ''}{_dotted(address[12:])}"
    shown = [f"{word:x}" for word in words]
    if length < 2:
        return ":".join(shown)
    return f"{':'.join(shown[:start])}::{':'.join(shown[start + length :])}"


def _longest_zeros(words: list[int]) -> tuple[int, int]:
    best = (0, 0)
    start = 0
    for n, word in enumerate([*words, 1]):
        if word:
            if n - start > best[1]:
                best = start, n - start
            start = n + 1
    return best


def text_of_macaddr(data: bytes) -> bytes:
    """macaddr and macaddr8."""
    if len(data) not in (6, 8):
        raise ValueError("a MAC address of another size")
    return data.hex(":").encode()
