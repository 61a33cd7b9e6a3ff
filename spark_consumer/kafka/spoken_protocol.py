"""What listens at an address of Kafka, asked before Kafka's own Java client is.

In: a connection, as it was just made. Out: whether TLS, or another protocol, is spoken there. That client takes the
first four bytes of any answer for a length, and wants as much memory: the JVM then ends for want of it, and nobody
hears that a setting is missing.
"""

import socket
import struct

ANSWER_S = 1.0
"""How long the answer may take; a server that says nothing is left to Kafka's client."""
_CORRELATION = 0x77616C62
_ASK_FOR_VERSIONS = struct.pack(">ihhih", 10, 18, 0, _CORRELATION, -1)
"""A whole ApiVersions request of version 0, which every broker answers before anybody has logged in."""
_TLS_RECORDS = (0x15, 0x16)
TLS, OTHER = "TLS", "another protocol than Kafka's"


def foreign_protocol(connection: socket.socket) -> str | None:
    """``TLS`` or ``OTHER``; None where a broker answers without TLS, or nobody does."""
    connection.settimeout(ANSWER_S)
    try:
        connection.sendall(_ASK_FOR_VERSIONS)
        answer = connection.recv(8, socket.MSG_WAITALL)
    except OSError:
        return None
    if not answer or answer[4:] == struct.pack(">i", _CORRELATION):
        return None
    return TLS if answer[0] in _TLS_RECORDS and answer[1:2] == b"\x03" else OTHER
