"""What a program used, as frame A has it: seven numbers, each 2**64 - 1 if it is unknown."""
import struct

_UNKNOWN = 2**64 - 1


def numbers(seen, wall_us, peak=None):
    """The numbers of A in their order on the wire. `seen`: what the meters saw."""
    peak = seen["memPeak"] if peak is None or seen["memPeak"] is not None else peak
    return seen["cpuUs"], peak, seen["readBytes"], seen["writeBytes"], wall_us, seen["pidsPeak"], seen["diskBytes"]


class LastUsage:
    """The use of the running program so far, or of the last one."""

    def __init__(self):
        self._numbers = (0, 0, None, None, 0, None, None)

    def ended(self, evidence):
        """`evidence`: the fields of X."""
        self._numbers = numbers(evidence, evidence["wallUs"], evidence["maxRssKb"] * 1024)

    def charge(self, seconds):
        """Adds CPU time that the agent spent on files of the program."""
        if self._numbers[0] is not None:
            self._numbers = (self._numbers[0] + int(seconds * 1e6),) + self._numbers[1:]

    def payload(self, run, meters):
        if run is not None:
            self._numbers = run.usage(meters) or self._numbers
        return struct.pack("<7Q", *(_UNKNOWN if one is None else one for one in self._numbers))
