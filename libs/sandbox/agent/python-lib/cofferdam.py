"""Reports a program's progress to the sandbox's owner. Outside a sandbox every call does nothing.

    import cofferdam
    cofferdam.progress(0.4, "fitting")
"""
import os as _os

__all__ = ["progress"]

# The gate's control pipe: above a program's usual descriptors, and not inherited by its children.
_PIPE = 199
# More than the 200 characters shown, because secrets are found before the text is cut.
_MESSAGE_MAX = 240


def _is_pipe():
    try:
        return _os.fstat(_PIPE).st_mode & 0o170000 == 0o010000
    except OSError:
        return False


_inode = _os.fstat(_PIPE).st_ino if _is_pipe() else None


def progress(fraction, message=""):
    """Reports a fraction from 0 to 1 and a short text. At most ten a second are shown, the newest ones."""
    fraction = float(fraction)
    fraction = min(1.0, max(0.0, fraction)) if fraction == fraction else 0.0
    text = " ".join(str(message)[:_MESSAGE_MAX].split())
    # If the program opened another file under this number, nothing is written to it.
    if _inode is None or not _is_pipe() or _os.fstat(_PIPE).st_ino != _inode:
        return
    try:
        _os.write(_PIPE, ("P%.6f %s\n" % (fraction, text)).encode("utf-8", "replace"))
    except OSError:
        pass
