"""Certificates that do not fit, in the words of libpq: no retry mends them, and a password is not the cause.

In: what libpq says of a connection that failed. Out: whether certificates or TLS itself are why. Of several hosts each
has to say so: that of a standby may be wrong for long, and the primary that is away comes back.
"""

import re

REMEDY = (
    "correct sslmode, sslrootcert, sslcert and sslkey in [postgres] dsn, and the files that they name: sslrootcert is "
    "the certificate of who signed the server's"
)
_WORDS = re.compile(
    r"certificate verify failed|root certificate file|server certificate for|requires a valid client certificate"
    r"|server does not support SSL|alert (unknown ca|\w* ?certificate)|private key file|could not load private key"
    r"|could not (open|read) (root )?certificate|SSL error: .*signature failure"  # an authority of the same name
)
_HOST = re.compile(r"(?m)^- host: ")


def is_certificates(message: str) -> bool:
    """Whether a certificate, a key or TLS is what failed, at every host."""
    _, *hosts = _HOST.split(message)
    return all(_WORDS.search(each) for each in hosts or [message])
