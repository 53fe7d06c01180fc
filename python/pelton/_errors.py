"""What goes wrong, by what one can do about it. Messages name the thing and the remedy, as the command prints them."""


class Error(Exception):
    """Everything that Pelton raises is one of these.

    >>> import pelton
    >>> try:
    ...     pelton.connect().sql("SELECT * FROM 'missing.parquet'")
    ... except pelton.Error as error:
    ...     print(type(error).__name__)
    InvalidInputError
    """


class InvalidInputError(Error, ValueError):
    """What was asked for cannot be; the message says what would work."""


class UnsupportedError(Error, NotImplementedError):
    """This cannot run here, or not in this way; something else may."""


class OutOfMemoryError(Error, MemoryError):
    """A kind of memory has no room; the message names the option that gives more."""

    tier: str
    """Which: "device memory", "pinned host memory", "host memory" or "disk"."""
    requested_bytes: int
    """What was asked for; 0 where it is not known."""
    available_bytes: int
    """What was left; 0 where it is not known."""

    def __init__(self, message: str, tier: str, requested_bytes: int, available_bytes: int) -> None:
        super().__init__(message)
        self.tier = tier
        self.requested_bytes = requested_bytes
        self.available_bytes = available_bytes

    def __reduce__(self) -> tuple[type["OutOfMemoryError"], tuple[str, str, int, int]]:
        return type(self), (str(self), self.tier, self.requested_bytes, self.available_bytes)


class CancelledError(Error):
    """The work was cancelled."""


class CorruptError(Error):
    """A file disagrees with its checksum or its own layout."""


class IoError(Error, OSError):
    """The operating system or an object store refused; a retry may help."""


class DeviceLostError(Error):
    """A GPU no longer answers; later queries do without it."""
