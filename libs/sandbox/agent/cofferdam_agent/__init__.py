"""Cofferdam's guest agent: runs one program at a time inside a sandbox and tells the worker what it saw.

It is advisory: the worker decides deadlines, caps and verdicts, and kills from outside.
Standard library only, Python 3.8 or newer, works with `-I -S`.
"""

PROTOCOL = 1
