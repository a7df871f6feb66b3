"""Runs unittest and writes one JSON line per test: python3 unittest-report.py REPORT [FILE].

The output is that of unittest. Folders that are not packages are searched, too, each as its own start
folder. node_modules, venv and folders whose name starts with a dot are skipped.
"""
import json
import os
import re
import sys
import time
import traceback
import unittest

# The reader accepts at most 8 MiB. So at most 500 messages of 4 KiB are written, which leaves enough for the
# names, files and lines of all other tests.
MESSAGE_MAX, MESSAGES = 4096, 500


class Report:
    def __init__(self, path):
        self.out = open(path, "w", encoding="utf-8", errors="backslashreplace")
        self.messages = 0

    def line(self, **fields):
        self.out.write(json.dumps(fields) + "\n")
        self.out.flush()

    def test(self, test, status, ms, error=None, message="", kind="test"):
        file, number = place(error)
        if error is not None:
            self.messages += 1
            if self.messages <= MESSAGES:
                message = "".join(traceback.format_exception(*error))[-MESSAGE_MAX:]
        self.line(t=kind, name=str(test)[:1024], status=status, file=file, line=number, ms=ms, message=message)


def place(error):
    """File and line of the trace's last frame inside the project. For a syntax error, those of the error."""
    if error is None:
        return None, None
    found = (None, None)
    here = os.getcwd() + os.sep
    if type(error[1]) is ImportError and error[1].name is None:
        # unittest's loader raised this ImportError. The text of the error contains the trace of the real
        # failure.
        for path, number in re.findall(r'^  File "([^"\n]+)", line (\d+)', str(error[1]), re.M):
            if path.startswith(here):
                found = (path, int(number))
        return found
    if isinstance(error[1], SyntaxError) and error[1].filename:
        return os.path.abspath(error[1].filename), error[1].lineno
    for frame, number in traceback.walk_tb(error[2]):
        path = os.path.abspath(frame.f_code.co_filename)
        if path.startswith(here) and path != os.path.abspath(__file__):
            found = (path, number)
    return found


def result_class(report):
    class Result(unittest.TextTestResult):
        started = None
        # The results of the running test. There are several if subtests or tearDown fail too.
        seen = None

        def startTest(self, test):
            self.started, self.seen = time.perf_counter(), []
            super().startTest(test)

        def stopTest(self, test):
            super().stopTest(test)
            seen, self.seen = self.seen, None
            if not seen:
                # The run was interrupted during the test.
                return
            ms = (time.perf_counter() - self.started) * 1000
            # The test counts once, with its worst result. Further failures are written as parts.
            found = [status for _, status, _, _ in seen]
            worst = next((status for status in ("failed", "errored", "skipped") if status in found), "passed")
            bad = [one for one in seen if one[1] in ("failed", "errored")]
            of, _, error, message = (bad or seen)[0]
            report.test(of, worst, ms, error, message)
            for of, status, error, message in bad[1:]:
                report.test(of, status, None, error, message, kind="part")

        def saw(self, test, status, error=None, message=""):
            if self.seen is None:
                # No test is running: a fixture of a class or module failed or was skipped.
                report.test(test, status, None, error, message)
            else:
                self.seen.append((test, status, error, message))

        def addSuccess(self, test):
            super().addSuccess(test)
            self.saw(test, "passed")

        def addFailure(self, test, error):
            super().addFailure(test, error)
            self.saw(test, "failed", error)

        def addError(self, test, error):
            super().addError(test, error)
            broken = type(test).__name__ == "_ErrorHolder" or type(test).__module__ == "unittest.loader"
            self.saw(test, "errored", error, str(error[1])[-MESSAGE_MAX:] if broken else "")

        def addSkip(self, test, reason):
            super().addSkip(test, reason)
            self.saw(test, "skipped")

        def addExpectedFailure(self, test, error):
            super().addExpectedFailure(test, error)
            self.saw(test, "passed")

        def addUnexpectedSuccess(self, test):
            super().addUnexpectedSuccess(test)
            self.saw(test, "failed", message="It was expected to fail and did not.")

        def addSubTest(self, test, subtest, error):
            super().addSubTest(test, subtest, error)
            if error is not None:
                self.saw(subtest, "failed" if issubclass(error[0], test.failureException) else "errored", error)

    return Result


def is_test(name):
    return name.endswith("_test.py") or (name.startswith("test") and name.endswith(".py"))


def has_tests(folder):
    return any(is_test(name) for name in os.listdir(folder))


class Loader(unittest.TestLoader):
    def _match_path(self, path, full_path, pattern):
        # unittest documents that subclasses may override this method. One pattern cannot match both
        # `test*.py` and `*_test.py`.
        return is_test(path)


def discover():
    suite = unittest.TestSuite()
    for folder, below, files in os.walk("."):
        below[:] = sorted(name for name in below if name[0] != "." and name not in ("node_modules", "venv"))
        inside = folder != "." and "__init__.py" in files
        if inside or not (has_tests(folder) or any(is_package(folder, name) for name in below)):
            continue
        # Discovery finds a package when it starts in the folder above the package.
        top = os.path.abspath(folder)
        suite.addTests(Loader().discover(top, top_level_dir=top))
    return suite


def is_package(folder, name):
    return os.path.exists(os.path.join(folder, name, "__init__.py"))


def from_file(path):
    folder, name = os.path.split(os.path.abspath(path))
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, above = os.path.split(folder)
        name = above + "." + name
    sys.path.insert(0, folder)
    return unittest.TestLoader().loadTestsFromName(name[: -len(".py")])


def main():
    report = Report(sys.argv[1])
    sys.path[0] = os.getcwd()
    suite = from_file(sys.argv[2]) if len(sys.argv) > 2 else discover()
    sys.argv[:] = ["python3 -m unittest"]
    result = unittest.TextTestRunner(resultclass=result_class(report), verbosity=2).run(suite)
    report.line(t="end")
    sys.exit(5 if result.testsRun == 0 and not result.errors else not result.wasSuccessful())


main()
