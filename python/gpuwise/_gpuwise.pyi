"""The native half: any question by the command line's own flags."""

__version__: str

class GpuwiseError(Exception):
    """What went wrong; ``hints`` say what to do."""

    hints: list[str]

def ask(arguments: list[str], *, settings: bool = True) -> tuple[bool, str]:
    """Ask a question: a command with its flags. Gives whether the answer is yes, and its text."""
