/** One process of QEMU: its descriptors, its protocol, its end. */
import { spawn, type ChildProcess, type StdioOptions } from 'node:child_process'
import { open, type FileHandle } from 'node:fs/promises'
import type { Duplex, Writable } from 'node:stream'
import { CofferdamError } from '@cofferdam/contract'
import { MARK } from '@cofferdam/sandbox/backend'
import { AGENT_PORT, CONTROL_PORT, type Connect, type MachineExit, type MachineSpec } from '../engine.ts'
import { FDS, qemuArguments, type QemuStart } from './arguments.ts'
import { createQmp, type Qmp } from './qmp.ts'

/** The end of what QEMU and the console said, for the reason of a failure. */
const SAID_MAX = 4096
/** A healthy machine says a few lines. One that floods its console is no longer listened to. */
const HEARD_MAX = 1 << 20

export interface QemuProcess {
  readonly pid: number
  readonly qmp: Qmp
  /** May be called once per port. */
  readonly connect: Connect
  /** Takes the state of a machine that is resumed. Null for others, which have it in a file. */
  readonly incoming: Writable | null
  said(): string
  kill(): Promise<void>
  readonly exited: Promise<MachineExit>
}

export interface QemuParts {
  binary: string
  /** User that QEMU runs as; null for the worker's own. */
  user: { uid: number; gid: number } | null
  /** Path of setpriv, which makes the kernel end QEMU when the worker ends. Null if it is missing. */
  setpriv: string | null
}

export interface QemuFiles {
  spec: MachineSpec
  id: string
  /** The folder of the machine's lease. */
  folder: string
  /** Null for a machine that is resumed. `use` decides how the files are opened. */
  image: { state: string; memory: string } | null
}

/** Rejects with `sandbox_open_failed` if the process does not start. */
export async function startQemu(
  parts: QemuParts,
  start: Omit<QemuStart, 'memoryMib' | 'vcpus' | 'kernelArguments'>,
  files: QemuFiles,
): Promise<QemuProcess> {
  const { spec, image } = files
  const handles: FileHandle[] = []
  const opened = async (path: string, flags: string): Promise<number> => {
    const handle = await open(path, flags)
    handles.push(handle)
    return handle.fd
  }
  try {
    const fds = [
      image === null ? 'pipe' : await opened(image.state, start.use === 'template' ? 'w' : 'r'),
      image === null ? 'ignore' : await opened(image.memory, 'r+'),
      await opened(spec.kernel, 'r'),
      await opened(spec.initramfs, 'r'),
      await opened(spec.root, 'r'),
      await opened(files.folder, 'r'),
    ] satisfies StdioOptions
    const { memoryMib, vcpus, kernelArguments } = spec
    const argv = [parts.binary, ...qemuArguments({ ...start, memoryMib, vcpus, kernelArguments })]
    const [command = '', ...rest] =
      parts.setpriv === null ? argv : [parts.setpriv, '--pdeathsig', 'KILL', '--', ...argv]
    const child = spawn(command, rest, {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', 'pipe', 'pipe', ...fds],
      env: { [MARK]: files.id, PATH: '/usr/bin:/bin' },
      cwd: '/',
      ...parts.user,
    })
    return await begun(child)
  } finally {
    await Promise.all(handles.map((handle) => handle.close()))
  }
}

async function begun(child: ChildProcess): Promise<QemuProcess> {
  const exited = Promise.withResolvers<MachineExit>()
  const { promise: spawned, resolve, reject } = Promise.withResolvers<void>()
  child.once('spawn', resolve)
  child.once('error', (cause) =>
    reject(new CofferdamError('sandbox_open_failed', `qemu: ${cause.message}`, { cause })),
  )
  // `oom` is always false, because this engine reads no cgroup. machine-group.ts counts kills for memory.
  child.once('exit', (code, signal) => exited.resolve({ code, signal, oom: false }))
  let said = ''
  let heard = 0
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('latin1').on('data', (text: string) => {
      said = (said + text).slice(-SAID_MAX)
      heard += text.length
      if (heard > HEARD_MAX) stream.destroy()
    })
  await spawned
  const [, , , qmpSocket, control, agent] = child.stdio as unknown as Duplex[]
  const incoming = (child.stdio as unknown as (Duplex | null)[])[FDS.state] ?? null
  if (child.pid === undefined || qmpSocket === undefined || control === undefined || agent === undefined)
    throw new CofferdamError('sandbox_open_failed', 'qemu: it has no channels')
  const ports = new Map([
    [CONTROL_PORT, control],
    [AGENT_PORT, agent],
  ])
  // A stream may break before anybody uses it, and its error would then be unhandled.
  for (const stream of [...ports.values(), incoming]) stream?.on('error', () => {})
  return {
    pid: child.pid,
    qmp: createQmp(qmpSocket),
    incoming,
    async connect(number) {
      const port = ports.get(number)
      ports.delete(number)
      if (port === undefined) throw new RangeError(`port ${number} does not exist, or is in use`)
      return port
    },
    said: () => said.trim(),
    async kill() {
      // Until `exit` the process is not reaped, so the pid is still its own.
      child.kill('SIGKILL')
      await exited.promise
      for (const stream of child.stdio) stream?.destroy()
    },
    exited: exited.promise,
  }
}
