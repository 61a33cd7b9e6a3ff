"""A process that ends at a kill point, within the test's own."""


class Crash(BaseException):
    """The process ends here."""
