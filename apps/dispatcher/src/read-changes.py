"""Says which files below folders changed. Runs in a session's sandbox as `python3 -I -c`.

Input: {"folders": {PATH: {FILE: SHA-256 of its text}}}, paths relative to the work directory. Output: {"folders":
{PATH: {"changed": {FILE: TEXT}, "gone": [FILE]}}, "more": whether something was left out for its size}.
Links, other special files, hidden markers and files that are not UTF-8 are no memories and are left out.
"""
import hashlib
import json
import os
import stat
import sys

FILE_MAX = 256 * 1024
# Characters of the answer's JSON, in which escapes can make a text six times as long. The output of an
# execution has at most 4 MiB. The names of the files take the rest.
TOTAL_MAX = 3 * 1024 * 1024
FILES_MAX = 4000


def files_below(folder):
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            if not name.startswith("."):
                yield os.path.relpath(os.path.join(at, name), folder)


def text_of(path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > FILE_MAX:
            return None
        try:
            return file.read(FILE_MAX + 1).decode("utf-8")
        except UnicodeDecodeError:
            return None


def main():
    more, left, count = False, TOTAL_MAX, 0
    answer = {}
    for folder, known in json.load(sys.stdin)["folders"].items():
        changed, seen = {}, set()
        for name in files_below(folder):
            count += 1
            if count > FILES_MAX:
                more = True
                break
            seen.add(name)
            text = text_of(os.path.join(folder, name))
            if text is None or hashlib.sha256(text.encode("utf-8")).hexdigest() == known.get(name):
                continue
            left -= len(json.dumps(text))
            if left < 0:
                more = True
                break
            changed[name] = text
        # After an early stop, a file that was not seen may still exist.
        gone = [] if more else [name for name in known if name not in seen]
        answer[folder] = {"changed": changed, "gone": gone}
    json.dump({"folders": answer, "more": more}, sys.stdout)


main()
