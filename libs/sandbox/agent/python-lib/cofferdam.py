"""Tells the sandbox's owner how far a program is. Where there is no sandbox around it, every call does
nothing.

    import cofferdam
    cofferdam.progress(0.4, "fitting")
"""
import os as _os

__all__ = ["progress"]

# The control pipe of the gate: above what programs open, not inherited by what they start.
_PIPE = 199
# More than the 200 that are shown: what is secret is found before the text is cut.
_MESSAGE_MAX = 240


def _is_pipe():
    try:
        return _os.fstat(_PIPE).st_mode & 0o170000 == 0o010000
    except OSError:
        return False


_inode = _os.fstat(_PIPE).st_ino if _is_pipe() else None


def progress(fraction, message=""):
    """Reports a fraction from 0 to 1 and a short text; of more than ten a second the newest is shown."""
    fraction = float(fraction)
    fraction = min(1.0, max(0.0, fraction)) if fraction == fraction else 0.0
    text = " ".join(str(message)[:_MESSAGE_MAX].split())
    # A program that put another file in its place meant that file.
    if _inode is None or not _is_pipe() or _os.fstat(_PIPE).st_ino != _inode:
        return
    try:
        _os.write(_PIPE, ("P%.6f %s\n" % (fraction, text)).encode("utf-8", "replace"))
    except OSError:
        pass
