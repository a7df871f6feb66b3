"""Runs a command and keeps a copy of what it prints: python3 tee-report.py FORM REPORT COMMAND...

FORM `go` prints the text of `go test -json` instead of its JSON. `text` prints the output unchanged. The copy
ends at 8 MiB, because the reader accepts no more.
"""
import json
import subprocess
import sys

COPY_MAX = 8 * 1024 * 1024


def main():
    form, report, command = sys.argv[1], sys.argv[2], sys.argv[3:]
    out = sys.stdout.buffer
    try:
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
    except FileNotFoundError:
        # Prints and exits as a shell does for a missing command.
        print("%s: not found" % command[0], file=sys.stderr)
        sys.exit(127)
    except OSError as error:
        sys.exit("%s: %s" % (command[0], error.strerror))
    left = COPY_MAX
    with open(report, "wb") as copy:
        while True:
            try:
                line = child.stdout.readline(64 * 1024)
            except KeyboardInterrupt:
                continue
            if not line:
                break
            copy.write(line[:left])
            copy.flush()
            left = max(0, left - len(line))
            out.write(shown(line) if form == "go" else line)
            out.flush()
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)


def shown(line):
    try:
        event = json.loads(line)
        return event.get("Output", "").encode() if isinstance(event, dict) else line
    except ValueError:
        return line


main()
