"""Inputs with damage: one to four kinds each, at every layer: tags, counts, lengths, kinds of fields, values."""

from collections.abc import Iterator
from random import Random
from struct import pack

from walbridge.producer.pgoutput.decoder import DECODERS

_INTERESTING = [0, 1, 2, 0x6E, 0x74, 0x75, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 2**31 - 1, 2**31, 2**32 - 1]
TAGS = bytes(DECODERS) + b"Nntu\0\xff"


def mutated(corpus: list[bytes], random: Random, count: int) -> Iterator[bytes]:
    """Inputs of the corpus, each damaged anew."""
    for _ in range(count):
        data = bytearray(random.choice(corpus))
        for _ in range(random.choice((1, 1, 2, 4))):
            _damage(data, random, corpus)
        yield bytes(data)


def _damage(data: bytearray, random: Random, corpus: list[bytes]) -> None:
    # Most damage is near the start, where the structure is; long values are all alike.
    at = random.randrange(min(len(data), random.choice((8, 80, 5000))) or 1)
    match random.randrange(7):
        case 0 if data:
            data[at % len(data)] ^= 1 << random.randrange(8)
        case 1:
            data[at : at + 1] = bytes((random.choice(TAGS),))
        case 2:
            data[at : at + 4] = pack(">I", random.choice(_INTERESTING))
        case 3:
            data[at : at + 2] = pack(">H", random.choice(_INTERESTING) & 0xFFFF)
        case 4:
            del data[at : at + random.choice((1, 2, 5, 500))]
        case 5:
            data[at:at] = data[at : at + random.choice((1, 4, 9))]
        case _:
            other = random.choice(corpus)
            data[at:] = other[random.randrange(len(other)) :]
