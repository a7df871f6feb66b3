"""Headers of a streaming call: its deadline, and the interval of its keepalives."""
import time

from envd_files import Refused

# envd's default.
KEEPALIVE_S = 90


class Call:
    def __init__(self, headers, connection):
        self.connection = connection
        self.keepalive_s = whole(headers.get("Keepalive-Ping-Interval")) or KEEPALIVE_S
        timeout_ms = whole(headers.get("Connect-Timeout-Ms"))
        # None: no deadline. A header of 0 means the same.
        self.timeout_s = timeout_ms / 1000 if timeout_ms else None
        self.until = time.monotonic() + self.timeout_s if self.timeout_s else float("inf")

    def left_s(self):
        return max(0.0, self.until - time.monotonic())

    def check_deadline(self):
        if time.monotonic() >= self.until:
            raise Refused("deadline_exceeded", "context deadline exceeded")


def whole(text):
    return int(text) if text and text.isdigit() else 0
