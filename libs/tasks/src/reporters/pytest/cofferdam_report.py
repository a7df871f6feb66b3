"""A plugin of pytest that writes a JSON line when a test starts and another when it has ended.

So a run that dies leaves a report of the tests until then. The environment names the report. The plugin
removes the variable, so that no worker of xdist and no pytest inside a test writes to the report.
"""
import json
import os
import re
import traceback

import pytest

# The reader accepts at most 8 MiB. So at most 500 messages of 4 KiB are written, which leaves enough for the
# names, files and lines of all other tests.
MESSAGE_MAX, MESSAGES = 4096, 500
HEAD_MAX = 1024
FRAME = re.compile(r'^(?:E?\s+File ")?(\S[^:"\n]*\.py)(?:", line |:)(\d{1,7})', re.M)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config):
    path = os.environ.pop("COFFERDAM_REPORT", None)
    report = None if path is None else Report(path, early_config)
    outcome = yield
    error = outcome.excinfo and outcome.excinfo[1]
    if report is not None and hasattr(error, "path"):
        report.unloaded(str(error.path), error.__cause__ or error)


class Report:
    def __init__(self, path, config):
        self.path = path
        self.out = None
        self.root = str(config.rootpath if hasattr(config, "rootpath") else config.rootdir)
        self.here = os.getcwd()
        self.messages = 0
        self.told = {}
        config.pluginmanager.register(self)

    def line(self, **fields):
        # The file is opened at the first call, because `pytest --version` runs no tests. It is opened for
        # appending, because a command may run pytest twice.
        self.out = self.out or open(self.path, "a", encoding="utf-8", errors="backslashreplace")
        self.out.write(json.dumps(fields, ensure_ascii=False) + "\n" if fields else "")
        self.out.flush()

    def close(self):
        # Python warns about files that are open at exit, and a project may turn warnings into errors.
        self.out = self.out.close()

    def test(self, name, status, place, ms=None, head="", text=""):
        file, number = place
        if text:
            for path, frame in FRAME.findall(text):
                path = os.path.normpath(os.path.join(self.here, path))
                # `path` is inside `file` if `file` is a folder whose conftest.py could not be loaded.
                if file and (path == file or path.startswith(file + os.sep)):
                    file, number = path, int(frame)
            self.messages += 1
            # A long trace loses its beginning, because its end says what went wrong.
            text = head[:HEAD_MAX] + "\n" + text[HEAD_MAX - MESSAGE_MAX :] if self.messages <= MESSAGES else ""
        self.line(t="test", name=name[:1024], status=status, file=file, line=number, ms=ms, message=text)

    def place(self, location):
        # pytest counts lines from 0 here.
        return os.path.normpath(os.path.join(self.root, location[0])), location[1] and location[1] + 1

    def failed(self, report, status, place, ms=None):
        text = str(report.longrepr)
        crash = getattr(report.longrepr, "reprcrash", None)
        head = crash.message if crash else (re.findall(r"^E +(\S.*)", text, re.M) or [""])[-1]
        self.test(report.nodeid, status, place, ms, head, text)

    def unloaded(self, path, error):
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        head = traceback.format_exception_only(type(error), error)[-1].strip()
        self.test(os.path.relpath(path, self.root), "errored", (path, None), None, head, text)
        self.close()

    def pytest_sessionstart(self):
        self.line()

    def pytest_collectreport(self, report):
        place = self.place((report.nodeid.split("::")[0], None))
        if report.failed:
            self.failed(report, "errored", place)
        elif report.skipped:
            self.test(report.nodeid, "skipped", place)

    def pytest_runtest_logstart(self, nodeid, location):
        file, number = self.place(location)
        self.line(t="start", name=nodeid[:1024], file=file, line=number)

    def pytest_runtest_logreport(self, report):
        # Reports are written only after the fixtures of the test are undone. A fixture may have replaced
        # functions that writing needs.
        self.told.setdefault(report.nodeid, []).append(report)

    def pytest_runtest_logfinish(self, nodeid):
        reports = self.told.pop(nodeid, [])
        if any(report.outcome == "rerun" for report in reports):
            return
        for report in reports:
            is_fixture = report.when in ("setup", "teardown")
            place, ms = self.place(report.location), report.duration * 1000
            if report.failed:
                self.failed(report, "errored" if is_fixture else "failed", place, ms)
            elif report.skipped or not (is_fixture or hasattr(report, "context")):
                # The report of a subtest has `context`. A passed subtest is left out.
                self.test(report.nodeid, "skipped" if report.skipped else "passed", place, ms)

    def pytest_internalerror(self, excrepr):
        self.test("pytest", "errored", (None, None), None, "", str(excrepr))

    def pytest_sessionfinish(self):
        # If an xdist worker dies, pytest never calls pytest_runtest_logfinish for the test that it was
        # running.
        for nodeid in list(self.told):
            self.pytest_runtest_logfinish(nodeid)
        self.line(t="end")
        self.close()
