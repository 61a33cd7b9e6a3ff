"""What every reader of a binary value is: its bytes in, the text that Postgres prints of it out."""

from collections.abc import Callable

Reader = Callable[[bytes], bytes]
