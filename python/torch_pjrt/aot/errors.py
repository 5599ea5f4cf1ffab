"""What can go wrong when a program is compiled for a TPU that is not there."""


class CompileError(RuntimeError):
    """The compiler refused the program; the message is the compiler's."""


class DoesNotFit(CompileError):
    """The program needs more memory than a device of the target has."""


class CompilerCrash(CompileError):
    """The compiler ended its process. The message has its last words. `by_itself`: it would again, for all one knows;
    not so where the process was killed from outside."""

    def __init__(self, message: str, by_itself: bool = True) -> None:
        super().__init__(message)
        self.by_itself = by_itself


class CompilerTimeout(CompileError):
    """The compiler did not answer in time and was ended."""


class Unavailable(RuntimeError):
    """There is no libtpu that can be loaded."""
