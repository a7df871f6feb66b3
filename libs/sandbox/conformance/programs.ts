/**
 * The suite's programs as a dialect: a backend without Python brings its own. Cases that need a program which
 * the dialect lacks are not registered.
 */
import { readFileSync } from 'node:fs'
import type { Language, Program } from '@cofferdam/contract'

const SURROUNDINGS_PROBE = readFileSync(new URL('surroundings.py', import.meta.url), 'utf8')

export interface Programs {
  /** Prints the text and a newline in the given language. */
  hello: (language: Language, text: string) => Program
  exit: (code: number) => Program
  /** Fails like an uncaught exception: the message on stderr, an exit code other than 0. */
  fail: (message: string) => Program
  /** Writes each text to its stream, in order, flushed. */
  write: (parts: readonly (readonly ['stdout' | 'stderr', string])[]) => Program
  /** Writes exactly so many bytes `x`. */
  flood: (bytes: number) => Program
  binary: (bytes: Uint8Array) => Program
  echoStdin: () => Program
  cat: (path: string) => Program
  writeFile: (path: string, text: string) => Program
  /** Prints the environment as one JSON object. */
  environment: () => Program
  /** Prints the text, flushed, then waits until something ends it. */
  printThenWait: (text: string) => Program
  /** Prints `ready`; on an interrupt prints the text and exits with the code. */
  handleInterrupt: (text: string, code: number) => Program
  /** Prints `ready`, ignores SIGINT and SIGTERM, never ends. */
  ignoreInterrupts: () => Program
  /** Prints `ready` and survives an interrupt; on SIGTERM prints the milliseconds in between and ends. */
  interruptedFor?: () => Program
  /** Yields the value. */
  value: (value: unknown) => Program

  /** Kills itself by the signal. */
  killSelf?: (signal: string) => Program
  /** Executes a file of the work directory directly. */
  execute?: (path: string) => Program
  /**
   * Leaves three kinds of processes with `marker` in their command lines, prints `ready`, waits. All ignore
   * signals.
   */
  orphans?: (marker: string) => Program
  /** Fills so many MiB of memory and prints `survived`. */
  fillMemory?: (mib: number) => Program
  /** Takes one MiB after another until killed, and prints a line for each. */
  takeMemory?: () => Program
  /** Starts processes until refused, prints how many it got, and leaves them. */
  fork?: (attempts: number) => Program
  /** Writes so many MiB into a file; prints the number of bytes in it and the error, if any. */
  fillDisk?: (mib: number) => Program
  /** Burns so many milliseconds of CPU time in each of two processes, however long that takes. */
  burn?: (ms: number) => Program
  sleep?: (ms: number) => Program
  /** Tries each `host:port` for up to 300 ms; prints `connected` or `refused` per line. */
  connect?: (targets: readonly (readonly [string, number])[]) => Program
  /** Makes a symbolic link in the work directory. */
  symlink?: (target: string, path: string) => Program
  /**
   * Prints the command lines of all visible processes, and entries of /tmp, /dev/shm and the work directory.
   */
  look?: () => Program
  /** Writes the marker into a file name in every writable shared folder, prints `ready`, waits. */
  leaveTraces?: (marker: string) => Program
  /** Prints its surroundings as the JSON of `Surroundings` (themes/surroundings.ts). */
  surroundings?: () => Program
  /** Reads a file of the host by its absolute path; prints it or `refused`. */
  readAbsolute?: (path: string) => Program
}

const python = (source: string): Program => ({ type: 'script', language: 'python', source })
const text = (value: string): string => JSON.stringify(value)

const HELLO: Record<Language, (value: string) => string> = {
  python: (value) => `print(${text(value)})`,
  javascript: (value) => `console.log(${text(value)})`,
  typescript: (value) => `const line: string = ${text(value)}\nconsole.log(line)`,
  bash: (value) => `printf '%s\\n' '${value.replaceAll("'", `'\\''`)}'`,
}

/** Python programs that use the standard library alone. */
export const pythonPrograms: Required<Programs> = {
  hello: (language, value) => ({ type: 'script', language, source: HELLO[language](value) }),
  exit: (code) => python(`import sys\nsys.exit(${code})`),
  fail: (message) => python(`raise RuntimeError(${text(message)})`),
  write: (parts) =>
    python(
      [
        'import sys',
        ...parts.map(([stream, part]) => `sys.${stream}.write(${text(part)}); sys.${stream}.flush()`),
      ].join('\n'),
    ),
  flood: (bytes) =>
    python(`
import sys
left = ${bytes}
block = b'x' * 65536
while left > 0:
    left -= sys.stdout.buffer.write(block[:left])
`),
  binary: (bytes) =>
    python(
      `import sys, base64\nsys.stdout.buffer.write(base64.b64decode(${text(Buffer.from(bytes).toString('base64'))}))`,
    ),
  echoStdin: () => python('import sys, shutil\nshutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)'),
  cat: (path) => python(`import sys\nsys.stdout.buffer.write(open(${text(path)}, 'rb').read())`),
  writeFile: (path, content) =>
    python(`
import os
path = ${text(path)}
os.makedirs(os.path.dirname(path) or '.', exist_ok=True)
open(path, 'w').write(${text(content)})
`),
  environment: () => python('import json, os\nprint(json.dumps(dict(os.environ)))'),
  printThenWait: (value) => python(`import time\nprint(${text(value)}, flush=True)\ntime.sleep(600)`),
  handleInterrupt: (value, code) =>
    // Waits in short steps, because an interrupt just before a sleep takes effect only after that sleep.
    // Ignores the SIGTERM that follows, because on a slow machine the program may still be cleaning up.
    python(`
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
try:
    print('ready', flush=True)
    while True: time.sleep(0.05)
except KeyboardInterrupt:
    print(${text(value)}, flush=True)
    sys.exit(${code})
`),
  interruptedFor: () =>
    python(`
import os, signal, time
began = []
signal.signal(signal.SIGINT, lambda *_: began.append(time.monotonic()))
def end(*_):
    print(round((time.monotonic() - began[0]) * 1000), flush=True)
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print('ready', flush=True)
while True: time.sleep(0.05)
`),
  ignoreInterrupts: () =>
    python(`
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
while True:
    pass
`),
  value: (value) => python(`import json\njson.loads(${text(JSON.stringify(value))})`),
  killSelf: (signal) => python(`import os, signal\nos.kill(os.getpid(), signal.${signal})`),
  execute: (path) =>
    python(
      `import subprocess\nprint(subprocess.run([${text(`./${path}`)}], capture_output=True, text=True).stdout, end='')`,
    ),
  orphans: (marker) =>
    python(`
import os, subprocess, sys, time
stubborn = "import signal, time\\nfor s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP): signal.signal(s, signal.SIG_IGN)\\nprint('up', flush=True)\\ntime.sleep(600)"
def start(**options):
    child = subprocess.Popen([sys.executable, '-c', stubborn, ${text(marker)}], stdout=subprocess.PIPE, **options)
    child.stdout.readline()
start()
start(start_new_session=True)
last_is_up, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        start()
        os.write(tell, b'x')
    os._exit(0)
os.wait()
os.read(last_is_up, 1)
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print('ready', flush=True)
time.sleep(600)
`),
  fillMemory: (mib) =>
    python(
      `data = bytearray(${mib} << 20)\nfor i in range(0, len(data), 4096): data[i] = 1\nprint('survived')`,
    ),
  // The pause lets the agent pass each line on. In gVisor it is killed together with the program.
  takeMemory: () =>
    python(`
import os, time
held = []
while True:
    held.append(b'x' * (1 << 20))
    os.write(1, b'.\\n')
    time.sleep(0.005)`),
  fork: (attempts) =>
    python(`
import os, time
made = []
try:
    for _ in range(${attempts}):
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        made.append(pid)
except OSError:
    pass
print(len(made))
`),
  fillDisk: (mib) =>
    python(`
import errno, os, signal
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
out = os.open('big', os.O_WRONLY | os.O_CREAT)
why = None
try:
    for _ in range(${mib} * 16):
        os.write(out, b'x' * 65536)
except OSError as error:
    why = errno.errorcode[error.errno]
print(os.fstat(out).st_size, why)
`),
  burn: (ms) =>
    python(`
import os, time
child = os.fork()
end = time.process_time() + ${ms} / 1000
while time.process_time() < end:
    pass
if child == 0:
    os._exit(0)
os.waitpid(child, 0)
`),
  sleep: (ms) => python(`import time\ntime.sleep(${ms} / 1000)`),
  connect: (targets) =>
    python(`
import socket
for host, port in ${JSON.stringify(targets)}:
    try:
        socket.create_connection((host, port), timeout=0.3).close()
        print('connected')
    except OSError:
        print('refused')
`),
  symlink: (target, path) => python(`import os\nos.symlink(${text(target)}, ${text(path)})`),
  look: () =>
    python(`
import os
for pid in os.listdir('/proc'):
    if pid.isdigit():
        try:
            print(open('/proc/' + pid + '/cmdline', 'rb').read().replace(b'\\0', b' ').decode('utf-8', 'replace'))
        except OSError:
            pass
for place in ('/tmp', '/dev/shm', '.'):
    try:
        for root, dirs, files in os.walk(place):
            print(' '.join(dirs + files))
    except OSError:
        pass
`),
  leaveTraces: (marker) =>
    python(`
import subprocess, sys, time
for place in ('/tmp', '/dev/shm', '.'):
    try:
        open(place + '/' + ${text(marker)}, 'w').close()
    except OSError:
        pass
subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)', ${text(marker)}])
print('ready', flush=True)
time.sleep(600)
`),
  surroundings: () => python(SURROUNDINGS_PROBE),
  readAbsolute: (path) =>
    python(`
try:
    print(open(${text(path)}).read())
except OSError:
    print('refused')
`),
}
