"""The parts of E2B's code interpreter (port 49999) that its SDKs use: /execute, /contexts, /health.

  POST /execute {"code", "context_id"? | "language"?, "env_vars"?}: lines to {"type": "end_of_execution"}
  GET, POST /contexts     DELETE /contexts/ID     POST /contexts/ID/restart

A context runs one cell at a time. A client that goes away interrupts its cell. Only Python is supported.
"""
import json
import os
import threading

from contexts import HOME, Contexts
from unix_http import JsonHandler, LoopbackServer, Server

contexts = Contexts()


class Handler(JsonHandler):
    def text(self, status, words):
        self.answer(status, words.encode(), "text/plain; charset=utf-8")

    def do_GET(self):
        if self.path == "/health":
            return self.answer_json(200, "OK")
        if self.path == "/contexts":
            return self.answer_json(200, [context.shown() for context in contexts.all.values()])
        return self.answer_json(404, {"detail": "Not Found"})

    def do_DELETE(self):
        self.of_context(self.path)

    def do_POST(self):
        try:
            wish = json.loads(self.read_body() or b"{}")
            if self.path == "/execute":
                return self.execute(wish)
            if self.path == "/contexts":
                return self.create(wish)
        except (KeyError, TypeError, ValueError) as error:
            return self.answer_json(422, {"detail": str(error)})
        return self.of_context(self.path)

    def execute(self, wish):
        wanted, language = wish.get("context_id"), wish.get("language")
        if wanted and language:
            return self.text(400, "Only one of context_id or language can be provided")
        if not is_python(language):
            return self.text(500, "Failed to create context: this double has no kernel for %s" % language)
        context = contexts.all.get(wanted) if wanted else contexts.default
        if context is None:
            return self.text(404, "Context %s not found" % wanted)
        cell = {"code": wish["code"], "env": wish.get("env_vars") or {}}
        self.begin_stream("application/json")
        try:
            context.execute(cell, self.given(), self.connection, self.chunk)
            self.end_stream()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def given(self):
        """The environment that envd returns for this token. Like the service, takes envd's refusal as the
        environment if the token is wrong.
        """
        if not self.token or self.headers.get("X-Access-Token") == self.token:
            return self.envs
        return {"code": "401", "message": "unauthorized access"}

    def create(self, wish):
        if not is_python(wish.get("language")):
            return self.text(500, "Failed to create context: this double has no kernel for %s" % wish["language"])
        cwd = wish.get("cwd") or HOME
        if not os.path.isdir(cwd):
            return self.text(500, "Failed to set working directory")
        return self.answer_json(200, contexts.create(cwd).shown())

    def of_context(self, path):
        _, _, wanted, *action = path.split("/") + [""]
        context = contexts.all.get(wanted)
        if context is None:
            return self.text(404, "Context %s not found" % wanted)
        if self.command == "DELETE":
            del contexts.all[wanted]
        elif action[:1] != ["restart"]:
            return self.answer_json(404, {"detail": "Not Found"})
        # A cell that is running ends with its context.
        child = context.child
        if child is not None:
            child.kill()
            child.wait()
        return self.answer_json(200, None)


def is_python(language):
    return (language or "python").lower().strip() == "python"


def listen(path, token, envs):
    """Serves in threads: clients outside through the socket, programs inside at the port."""
    Handler.token, Handler.envs = token, envs
    for server in (LoopbackServer(("127.0.0.1", 49999), Handler), Server(path, Handler)):
        threading.Thread(target=server.serve_forever, daemon=True).start()
