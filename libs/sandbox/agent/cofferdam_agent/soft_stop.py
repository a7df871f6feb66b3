"""The soft stop of a program and its grace: SIGINT now, SIGTERM after half of the grace, to the program's
process group.

The worker sends the grace with frame S: the milliseconds until it kills the sandbox. The second half is what
a program has for its own SIGTERM handler. A program gets one soft stop; later ones change nothing.
"""
import _signal as signal
import os
import time


class SoftStop:
    def __init__(self):
        self._was_asked = False
        self._term_at = None
        # True from SIGTERM on: the program did not end by SIGINT.
        self.has_terminated = False

    def begin(self, group, grace_s):
        if self._was_asked:
            return
        self._was_asked = True
        _signal_group(group, signal.SIGINT)
        self._term_at = time.monotonic() + grace_s / 2

    def due_at(self):
        """When SIGTERM is due, by the monotonic clock; None when it is not to be sent."""
        return self._term_at

    def fire(self, group):
        if self._term_at is not None and time.monotonic() >= self._term_at:
            self._term_at = None
            self.has_terminated = True
            _signal_group(group, signal.SIGTERM)


def _signal_group(group, number):
    try:
        os.killpg(group, number)
    except OSError:
        pass  # It has ended.
