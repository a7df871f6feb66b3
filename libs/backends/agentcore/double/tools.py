"""The nine tools of a session. Their answers have the shape that the service was seen to send."""
import base64
import os
import signal
import subprocess
import time
import uuid

from running import ENVIRONMENT, HOME, Kernel, Task, strip

NODE = "/opt/node/bin/node"


def finished(code, out, err, seconds):
    blocks = [{"type": "text", "text": text} for text in (out, err) if text != ""]
    structured = {"stdout": out, "stderr": err, "exitCode": code, "executionTime": seconds}
    return {"content": blocks, "structuredContent": structured, "isError": code != 0}


def said(text, is_error=False, structured=None):
    result = {"content": [{"type": "text", "text": text}], "isError": is_error}
    return result if structured is None else {**result, "structuredContent": structured}


class Refused(Exception):
    pass


def inside(path):
    if not path or path.startswith("/") or ".." in path.split("/") or "\0" in path:
        raise Refused("%r is not a relative path" % path)
    return os.path.join(HOME, path)


class Session:
    def __init__(self):
        self.kernel, self.tasks = None, {}

    def executeCode(self, given, on_text):
        started = time.monotonic()
        if given.get("language", "python") != "python":
            return self.script(given)
        if self.kernel is None or self.kernel.dead:
            self.kernel = Kernel()
        code, out, err = self.kernel.run(given["code"], given.get("clearContext") is True, on_text)
        return finished(code, strip(out), strip(err), time.monotonic() - started)

    def script(self, given):
        started = time.monotonic()
        ending = ".mts" if given["language"] == "typescript" else ".cjs"
        path = "/tmp/%s%s" % (uuid.uuid4().hex, ending)
        with open(path, "w") as file:
            file.write(given["code"])
        ran = subprocess.run([NODE, path], cwd=HOME, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True)
        os.unlink(path)
        out, err = (strip(text.decode("utf-8", "replace")) for text in (ran.stdout, ran.stderr))
        return finished(ran.returncode & 255, out, err, time.monotonic() - started)

    def executeCommand(self, given, on_text):
        task = Task(given["command"], on_text and (lambda text: on_text(text.replace("\n", "\r\n"))))
        task.ended.wait()
        output, code = task.output(), task.code()
        return finished(code, output, "", task.seconds) if code == 0 else finished(code, "", output, task.seconds)

    def startCommandExecution(self, given, on_text):
        task = Task(given["command"])
        self.tasks[task.id] = task
        structured = {"taskId": task.id, "taskStatus": "submitted", "stdout": "", "stderr": ""}
        return said("Task %s submitted" % task.id, False, structured)

    def task(self, given):
        task = self.tasks.get(given["taskId"])
        if task is None:
            raise Refused("Task %s not found" % given["taskId"])
        return task

    def getTask(self, given, on_text):
        task = self.task(given)
        structured = {"taskId": task.id, "taskStatus": task.status, "stdout": "", "stderr": ""}
        if task.ended.is_set():
            name = "stdout" if task.code() == 0 else "stderr"
            structured.update({name: task.output(), "exitCode": task.code(), "executionTime": task.seconds})
        return said("Task %s is %s" % (task.id, task.status), task.status == "failed", structured)

    def stopTask(self, given, on_text):
        task = self.task(given)
        if task.ended.is_set():
            raise Refused("Task cannot be canceled: it is %s" % task.status)
        task.status = "canceled"
        os.killpg(task.process.pid, signal.SIGKILL)
        task.ended.wait()
        structured = {"taskId": task.id, "taskStatus": "canceled", "stdout": "", "stderr": ""}
        return said("Task %s canceled" % task.id, False, structured)

    def writeFiles(self, given, on_text):
        for block in given["content"]:
            path = inside(block["path"])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            data = base64.b64decode(block["blob"]) if "blob" in block else block.get("text", "").encode()
            with open(path, "wb") as file:
                file.write(data)
        return said("Successfully wrote all %d files" % len(given["content"]))

    def readFiles(self, given, on_text):
        blocks = []
        for name in given["paths"]:
            with open(inside(name), "rb") as file:
                data = file.read()
            resource = {"uri": "file:///%s" % name}
            try:
                resource.update(type="text", mimeType="text/plain", text=data.decode())
            except UnicodeDecodeError:
                resource.update(type="blob", mimeType="application/octet-stream", blob=base64.b64encode(data).decode())
            blocks.append({"type": "resource", "resource": resource})
        return {"content": blocks, "isError": False}

    def listFiles(self, given, on_text):
        folder = given.get("directoryPath") or given.get("path") or "."
        blocks = []
        for name in sorted(os.listdir(inside(folder))):
            is_folder = os.path.isdir(os.path.join(HOME, folder, name))
            path = os.path.normpath(os.path.join(folder, name))
            blocks.append({"type": "resource_link", "uri": "file:///%s" % path, "name": name,
                           "description": "Directory" if is_folder else "File"})  # fmt: skip
        return {"content": blocks, "isError": False}

    def removeFiles(self, given, on_text):
        for name in given["paths"]:
            os.unlink(inside(name))
        return said("Successfully removed all %d files" % len(given["paths"]))
