/**
 * Starts the VMM of one machine and leaves it without a guest:
 *
 *   uid taken → jail furnished → jailer run → pid and cgroup checked → `started` called
 *     → API connected → version checked → log pipe tried
 *
 * The ID of the machine's lease (engine.ts) determines the names of the jail and its cgroup. So if a worker
 * dies in between, another worker finds everything that it left. If any step fails, everything is ended
 * again.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { lstat, open } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'
import { identityOf, thisPlace, type ProcessIdentity } from '@cofferdam/sandbox/backend'
import { connectApi, type FirecrackerApi } from './api.ts'
import { endMachine, processesIn } from './end-machine.ts'
import { furnishJail, INSIDE, jailerArguments, type Jail, type JailerUse } from './jail.ts'
import { openLogPipe, type LogPipe } from './log-pipe.ts'
import type { FirecrackerSettings } from './settings.ts'
import { getVersion, putLogger } from './swagger.ts'
import type { JailUids } from './uids.ts'
import { refuseVersion } from './version.ts'

/** How long each step may take. */
export interface Timings {
  /** The jailer, from its start to its end. It is slow on hosts with many mounts. */
  jailerMs: number
  /** Until the API listens. */
  apiMs: number
  /** An answer of the API. */
  answerMs: number
  /** A boot, until the guest says hello. */
  bootMs: number
  /** Writing the memory of a guest to disk. */
  snapshotMs: number
  /** Until a port of a clone is connected. */
  connectMs: number
  /** The answer of the vsock to one attempt. */
  handshakeMs: number
}

export interface StartParts {
  settings: FirecrackerSettings
  uids: JailUids
  timings: Timings
}

/** A VMM that waits for its guest. */
export interface StartedVmm {
  jail: Jail
  process: ProcessIdentity
  api: FirecrackerApi
  log: LogPipe
}

const PID_FILE_BYTES = 16
const STDERR_BYTES = 4096

/** Throws `sandbox_open_failed` or the reason of the signal, and then leaves nothing. */
export async function startVmm(
  { settings, uids, timings }: StartParts,
  jail: Jail,
  start: {
    /** Linked into the jail, by their names there. */
    files: Record<string, string>
    use: Omit<JailerUse, 'uid'>
    /** Called with the pid of the VMM before the first call to its API. */
    started?: ((pid: number) => Promise<void>) | undefined
  },
  signal: AbortSignal,
): Promise<StartedVmm> {
  signal.throwIfAborted()
  // Without this check, the clean-up of this failed start would end the machine that uses the jail.
  if (await exists(jail.folder))
    throw new CofferdamError('sandbox_open_failed', `microvm: ${jail.id} is in use by another machine.`)
  const uid = await uids.take(jail.id)
  let vmm: ProcessIdentity | null = null
  let log: LogPipe | null = null
  let api: FirecrackerApi | null = null
  try {
    await furnishJail(jail, uid, start.files)
    log = await openLogPipe(jail.log)
    const argv = jailerArguments(settings, jail, { uid, ...start.use })
    await runJailer(settings.jailer, argv, timings.jailerMs, signal)
    vmm = await readProcess(jail)
    await start.started?.(vmm.pid)
    api = await connectApi(jail.api, { withinMs: timings.apiMs, signal })
    await checkVersion(api, timings.answerMs)
    await api.call(putLogger(INSIDE.log), timings.answerMs)
    await log.isWritten()
    return { jail, process: vmm, api, log }
  } catch (error) {
    api?.close()
    const tail = log?.tail() ?? ''
    await log?.close()
    await endMachine(jail, vmm, uids)
    signal.throwIfAborted()
    throw asOpenFailed(error, tail)
  }
}

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    () => false,
  )

/** Any failure of a start, with the last words of the VMM for people. */
export function asOpenFailed(error: unknown, log: string): CofferdamError {
  const message = error instanceof Error ? error.message : String(error)
  return new CofferdamError('sandbox_open_failed', message, {
    cause: error,
    details: log === '' ? {} : { firecracker_log: log.slice(-2000) },
  })
}

/**
 * Because the VMM gets its own PID namespace, the jailer ends as soon as it has started the VMM
 * (docs/jailer.md).
 */
async function runJailer(
  jailer: string,
  args: string[],
  withinMs: number,
  signal: AbortSignal,
): Promise<void> {
  const child = spawn(jailer, args, { cwd: '/', env: {}, stdio: ['ignore', 'ignore', 'pipe'] })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said = (said + chunk.toString('utf8')).slice(0, STDERR_BYTES)
  })
  child.stderr.on('error', () => {})
  const late = AbortSignal.any([signal, AbortSignal.timeout(withinMs)])
  const stop = (): boolean => child.kill('SIGKILL')
  late.addEventListener('abort', stop, { once: true })
  try {
    const [code, killed] = (await once(child, 'exit')) as [number | null, string | null]
    signal.throwIfAborted()
    if (code === 0) return
    const how = late.aborted ? `did not end within ${withinMs} ms` : `ended with ${killed ?? code}`
    throw new Error(`The jailer ${how}${said.trim() === '' ? '' : `: ${said.trim()}`}`)
  } finally {
    late.removeEventListener('abort', stop)
    // The VMM inherited this stderr. Nobody reads it, because the VMM’s log has more.
    child.stderr.destroy()
    child.unref()
  }
}

/**
 * Reads the VMM’s pid from the jailer’s file. The VMM’s user owns the jail and can change that file. So the
 * kernel must confirm the pid: the process must be in the machine’s group.
 */
async function readProcess(jail: Jail): Promise<ProcessIdentity> {
  const file = await open(jail.pidFile, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(PID_FILE_BYTES), 0, PID_FILE_BYTES, 0)
    const pid = /^(\d{1,10})\n?$/.exec(buffer.toString('latin1', 0, bytesRead))?.[1]
    const found = pid === undefined ? null : identityOf(Number(pid), await thisPlace())
    if (found === null) throw new Error('The process of Firecracker ended at once, or its pid is not known.')
    if (!(await processesIn(jail.cgroup)).includes(found.pid))
      throw new Error(`Firecracker (${found.pid}) is not in its group ${jail.cgroup}.`)
    return found
  } finally {
    await file.close()
  }
}

async function checkVersion(api: FirecrackerApi, withinMs: number): Promise<void> {
  const said = await api.call(getVersion(), withinMs)
  const version = (said as { firecracker_version?: unknown } | null)?.firecracker_version
  const refusal = typeof version === 'string' ? refuseVersion(version) : 'it does not tell its version'
  if (refusal !== null) throw new Error(`This Firecracker is not used: ${refusal}.`)
}
