"""Every error of the package, named by what the reader should do next.

    BeforehandError
      InputError        correct the argument
      NotFound          name something that exists (at that time)
      NotConfigured     set the key, or install the extra, that the message names
      Unavailable       try again later (carries `retry_after`, in seconds)
      Refused           the request is not allowed
      CutoffViolation   ask for an earlier time: this one lies after the cutoff
      RateLimited       wait
      Held              let the other process finish
      Unauthorized      present a valid token
      ExecutionFailed   untrusted code failed: correct the code
      BadAnswer         an outside answer broke its schema
      ReplayMiss        the recording does not hold it, and a replay never goes live
      Stopped           the run stopped cleanly before its end: resume it (Interrupted: by a signal)
      Corrupt           an invariant broke: stop, and verify

`EXIT_CODES` maps each class to the exit code of the command line, `HTTP_STATUS` to the status of
an answer over HTTP.
"""


class BeforehandError(Exception):
    """Base of all errors that this package raises on purpose."""


class InputError(BeforehandError):
    """A bad argument, file, line or option."""


class NotFound(BeforehandError):
    """Nothing by that name is visible; the text never depends on what lies after the cutoff."""


class NotConfigured(BeforehandError):
    """A key, an extra or an archive is missing; the message says what works without it."""


class Unavailable(BeforehandError):
    """An outside service failed in a way that may pass. `uncertain` is set where the request may
    have been carried out although no answer came, `unreached` where no attempt could connect to the
    service; `status` is the last status that was answered."""

    def __init__(
        self, message: str, retry_after: float | None = None, uncertain: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after, self.uncertain = retry_after, uncertain
        self.unreached, self.status = False, 0


class Refused(BeforehandError):
    """Understood, and not allowed."""


class CutoffViolation(BeforehandError):
    """Something later than the View's instant was asked for, or a source returned it."""


class RateLimited(Unavailable):
    """A limit was reached."""


class Held(Unavailable):
    """Another process is doing this already."""


class Unauthorized(BeforehandError):
    """No token, one that does not cover this, or one whose credit is used up: `status` is 401, 403,
    or 402 of HTTP."""

    def __init__(self, message: str, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


class ExecutionFailed(BeforehandError):
    """Untrusted code ended in a timeout, an exception or a policy refusal."""


class BadAnswer(BeforehandError):
    """A vendor's or a model's answer does not have the documented shape."""


class ReplayMiss(BeforehandError):
    """The recorded world does not hold what was asked for."""


class Stopped(BeforehandError):
    """A run ended early on purpose (a budget, a cancellation, a signal) and can be resumed."""


class Interrupted(Stopped):
    """Stopped by a signal, whose number it carries."""

    def __init__(self, message: str, number: int = 2) -> None:
        super().__init__(message)
        self.number = number


class Corrupt(BeforehandError):
    """Stored bytes no longer match their digest, or an invariant broke."""


EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_PARTIAL, EXIT_INTERRUPTED = 0, 1, 2, 3, 130

EXIT_CODES: dict[type[BeforehandError], int] = {
    InputError: EXIT_USAGE,
    NotFound: EXIT_USAGE,
    CutoffViolation: EXIT_USAGE,
    Stopped: EXIT_PARTIAL,
}


HTTP_STATUS: dict[type[BeforehandError], int] = {
    InputError: 422,
    CutoffViolation: 422,
    ExecutionFailed: 422,
    NotFound: 404,
    ReplayMiss: 404,
    Unauthorized: 401,
    Refused: 403,
    Held: 409,
    Stopped: 409,
    NotConfigured: 409,
    Corrupt: 409,
    RateLimited: 429,
    Unavailable: 503,
    BadAnswer: 502,
}
"""Narrower classes stand before the wider ones that they belong to."""


def kind_of(error: BaseException) -> str:
    """The name of an error's class on the wire: `not_found` for NotFound."""
    name = type(error).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")


def error_named(kind: str) -> type[BeforehandError]:
    """The class whose name on the wire this is; BeforehandError where there is none."""
    name = "".join(part.capitalize() for part in kind.split("_"))
    found = globals().get(name)
    if isinstance(found, type) and issubclass(found, BeforehandError):
        return found
    return BeforehandError


def http_status(error: BaseException) -> int:
    """The status of an answer over HTTP for an error; 500 for one that was not raised on
    purpose."""
    return next((code for kind, code in HTTP_STATUS.items() if isinstance(error, kind)), 500)


def exit_code(error: BaseException) -> int:
    """The process exit code for an error; 1 where no narrower one is listed."""
    if isinstance(error, KeyboardInterrupt):
        return EXIT_INTERRUPTED
    if isinstance(error, Interrupted):
        return 128 + error.number
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), EXIT_FAILED)
