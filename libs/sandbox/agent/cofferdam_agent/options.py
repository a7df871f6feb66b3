"""Command line of the agent, parsed without argparse (its import costs more than the agent's whole start)."""
import os
import sys

DEFAULT_PATH = "/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"
LANGUAGES = ("python", "javascript", "typescript", "bash", "none")
# `node` selects the interpreter that runs both JavaScript and TypeScript, for a host that accepts either file
# name.
ALIASES = {"node": "javascript"}


class Options:
    def __init__(self, argv):
        self.language = "none"
        self.work = "/tmp/work"
        self.python = sys.executable
        self.node = "node"
        self.uid = 65534
        self.gid = 65534
        self.cgroup = False
        self.own_disk = False
        self.hold = False
        self.cell = False
        self.preload = []
        self.confined = os.getpid() == 1
        self.scope = False
        self.seccomp = None
        self.socket = None
        self.env = {"PATH": DEFAULT_PATH, "HOME": "/tmp", "LANG": "C.UTF-8", "TMPDIR": "/tmp", "TZ": "UTC"}
        self.rlimits = {}
        flags = {"cgroup", "own-disk", "hold", "cell", "confined", "scope"}
        rest = list(argv)
        while rest:
            name = rest.pop(0)
            if not name.startswith("--"):
                raise SystemExit("agent: unexpected %r" % name)
            name = name[2:]
            if name in flags:
                setattr(self, name.replace("-", "_"), True)
                continue
            if not rest:
                raise SystemExit("agent: --%s needs a value" % name)
            value = rest.pop(0)
            if name == "language":
                self.language = ALIASES.get(value, value)
                if self.language not in LANGUAGES:
                    raise SystemExit("agent: unknown language %r" % value)
            elif name in ("work", "python", "node", "seccomp", "socket"):
                setattr(self, name, value)
            elif name in ("uid", "gid"):
                setattr(self, name, int(value))
            elif name == "preload":
                self.preload.append(value)
            elif name == "env":
                key, _, text = value.partition("=")
                self.env[key] = text
            elif name == "rlimit":
                key, _, text = value.partition("=")
                self.rlimits[key] = int(text)
            else:
                raise SystemExit("agent: unknown option --%s" % name)
