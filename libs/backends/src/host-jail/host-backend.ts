/**
 * The Backend of everything that runs as processes of this host: records, cgroups, the agent's start and the proven end.
 * How a sandbox is fenced in is the rung's matter (bwrap, self-jail, plain).
 */
import { chown, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import {
  CofferdamError,
  isCofferdamError,
  LANGUAGES,
  refuseMissing,
  type Backend,
  type Capabilities,
  type Probe,
  type Sandbox,
  type SandboxId,
  type SandboxSpec,
  type WorkerId,
} from '@cofferdam/contract'
import { createGuestSession, type GuestSession } from '@cofferdam/guest'
import { SILENT, type BackendDeps } from '../deps.ts'
import { createCgroups, type Cgroup, type Cgroups } from './cgroups.ts'
import { GuestSandbox } from './guest-sandbox.ts'
import {
  findMarked,
  identityOf,
  killExactly,
  killTree,
  thisPlace,
  waitGone,
  type ProcessIdentity,
} from './process-identity.ts'
import { createRecords, type Records } from './records.ts'
import type { DropTo, Launched, Rung } from './rung.ts'

/** After SIGKILL everything is gone in milliseconds; a CPU quota or a busy host stretches that (41 spinning processes: 250 ms). */
const GONE_MS = 10_000
/** An agent without a pid namespace ends what it started when its channel closes, and reaps it; then the tree is killed. */
const OWN_END_MS = 250
/** Last words of an agent or of bwrap that go into the error. */
const STDERR_MAX = 4096

export interface HostBackendOptions {
  name: string
  rung: Rung | null
  /** Why there is no rung, and what to do about it; also features when there is one. */
  refusal: { why: string; fix: string }
  /** Folder of this backend's records; made here. */
  root: string
  cgroupParent: string | null
  useCgroups: boolean
  dropTo: DropTo | null
  readyTimeoutMs: number
  deps: BackendDeps
}

/** Makes the backend; throws nothing for a host that cannot run it (probe says so). */
export async function createHostBackend(options: HostBackendOptions): Promise<Backend> {
  const { name, rung } = options
  const logger = options.deps.logger ?? SILENT
  const records = createRecords(options.root)
  const cgroups = rung !== null && options.useCgroups ? await createCgroups(options.cgroupParent) : null
  const place = rung === null ? '' : await thisPlace()
  const capabilities = capabilitiesOf(rung, cgroups)
  const live = new Set<Sandbox>()
  let isDisposed = false

  const ends = createEnds({ records, cgroups, place })

  async function open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
    signal.throwIfAborted()
    if (rung === null || isDisposed) throw new CofferdamError('backend_unavailable', options.refusal.why)
    refuseMissing(name, capabilities, spec)
    const id = spec.sandboxId
    const folder = await records.create(spec.owner, id).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') throw new CofferdamError('conflict', `${id} exists already.`)
      throw new CofferdamError('sandbox_open_failed', `${name}: no folder for the sandbox`, { cause: error })
    })
    let launched: Launched | null = null
    let identity: ProcessIdentity | null = null
    let session: GuestSession | null = null
    const lastWords: Buffer[] = []
    try {
      const home = join(folder, 'home')
      if (rung.usesFolder) {
        for (const path of [home, join(home, 'tmp')]) {
          await mkdir(path, { mode: 0o700 })
          if (options.dropTo !== null) await chown(path, options.dropTo.uid, options.dropTo.gid)
        }
      }
      const makingGroup = cgroups?.create(id, spec.limits)
      makingGroup?.catch(() => {})
      launched = rung.start({ spec, folder: home, hasCgroup: cgroups !== null })
      const { child } = launched
      keepLastWords(child, lastWords)
      if (child.stdin === null || child.stdout === null) throw new Error('no channel')
      session = createGuestSession({ readable: child.stdout, writable: child.stdin })
      const pid = await orAborted(launched.agentPid, signal)
      identity = await identityOf(pid, place)
      if (identity === null) throw new Error('the agent ended at once')
      const cgroup = (await makingGroup) ?? null
      await Promise.all([records.save(spec.owner, id, identity, rung.ownsPids), cgroup?.join(pid)])
      session.release()
      await session.ready(AbortSignal.any([signal, AbortSignal.timeout(options.readyTimeoutMs)]))
      return remember(spec, identity, launched, session, cgroup)
    } catch (error) {
      session?.close()
      await end(spec.owner, id, launched, identity)
      signal.throwIfAborted()
      if (isCofferdamError(error) && error.code !== 'sandbox_lost') throw error
      throw new CofferdamError('sandbox_open_failed', `${name}: the sandbox did not start`, {
        cause: error,
        details: { said: Buffer.concat(lastWords).toString('utf8') },
      })
    }
  }

  function remember(
    spec: SandboxSpec,
    identity: ProcessIdentity,
    launched: Launched,
    session: GuestSession,
    cgroup: Cgroup | null,
  ): Sandbox {
    const sandbox: Sandbox = new GuestSandbox({
      spec,
      ref: {
        backend: name,
        id: spec.sandboxId,
        handle: { pid: identity.pid, start: identity.start, place: identity.place },
      },
      isolation: rung?.isolation ?? 'none',
      session,
      cgroup,
      agentPid: identity.pid,
      destroy: async () => {
        session.close()
        await end(spec.owner, spec.sandboxId, launched, identity)
        live.delete(sandbox)
      },
    })
    live.add(sandbox)
    // A child that dies by itself closes its pipes, and the session with them.
    launched.child.once('exit', () => session.close())
    return sandbox
  }

  async function end(
    owner: WorkerId,
    id: SandboxId,
    launched: Launched | null,
    identity: ProcessIdentity | null,
  ): Promise<void> {
    if (identity !== null) {
      if (rung?.ownsPids !== true) await waitGone(identity, place, OWN_END_MS)
      await ends.kill(identity, rung?.ownsPids ?? false, id)
    }
    if (launched !== null) await endChild(launched, place)
    await ends.forget(owner, id)
  }

  return {
    name,
    isolation: rung?.isolation ?? 'none',
    capabilities,

    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      if (rung === null) return { ok: false, ...options.refusal }
      return { ok: true, features: [...rung.features, ...limitFeatures(capabilities, cgroups)] }
    },
    open,

    async kill(ref) {
      const owner = await records.ownerOf(ref.id)
      if (owner === null) return false
      return (await ends.endRecorded(owner, ref.id)) > 0
    },
    async sweep(owner) {
      const found = await records.list(owner)
      const killed = await Promise.all(found.map(({ id }) => ends.endRecorded(owner, id)))
      return { destroyed: killed.reduce((sum, n) => sum + n, 0) }
    },
    owners: () => records.owners(),

    async [Symbol.asyncDispose]() {
      isDisposed = true
      const left = await Promise.allSettled([...live].map((sandbox) => sandbox[Symbol.asyncDispose]()))
      for (const result of left)
        if (result.status === 'rejected')
          logger.warn({ backend: name, error: result.reason as unknown }, 'a sandbox was not destroyed')
      await cgroups?.close()
    },
  }
}

/** The two ways to a proven end: of our own sandbox, and of one that a record names. */
function createEnds(deps: { records: Records; cgroups: Cgroups | null; place: string }): {
  kill(identity: ProcessIdentity, ownsPids: boolean, id: SandboxId): Promise<void>
  forget(owner: WorkerId, id: SandboxId): Promise<void>
  endRecorded(owner: WorkerId, id: SandboxId): Promise<number>
} {
  const { records, cgroups, place } = deps

  async function kill(identity: ProcessIdentity, ownsPids: boolean, id: SandboxId): Promise<void> {
    let gone: boolean
    if (ownsPids) {
      await killExactly(identity, place)
      gone = await waitGone(identity, place, GONE_MS)
    } else {
      gone = await killTree(identity, place, GONE_MS)
      await killStrays(cgroups?.find(id) ?? null)
    }
    if (!gone)
      throw new CofferdamError('internal', 'a sandbox is still running after SIGKILL', {
        details: { pid: identity.pid },
      })
  }

  async function forget(owner: WorkerId, id: SandboxId): Promise<void> {
    await cgroups?.find(id).remove()
    await records.remove(owner, id)
  }

  return {
    kill,
    forget,
    async endRecorded(owner, id) {
      const found = (await records.list(owner)).find((entry) => entry.id === id)
      if (found === undefined) return 0
      // Another host's record (a shared folder) names a process that is not ours to judge.
      if (found.record !== null && found.record.place === place)
        await kill(found.record, found.record.ownsPids, id)
      // Without a record the worker died while it opened the sandbox; only the mark tells what it had started.
      if (found.record === null)
        for (const identity of await findMarked(id, place)) await kill(identity, false, id)
      await forget(owner, id)
      return 1
    },
  }
}

/** Without a pid namespace a process may have left the agent's tree (the agent was killed first): the cgroup still has it. */
async function killStrays(cgroup: Cgroup | null): Promise<void> {
  for (let round = 0; cgroup !== null && round < 100; round++) {
    const pids = await cgroup.pids()
    if (pids.length === 0) return
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // Gone meanwhile.
      }
    }
  }
}

/** Our own child is the agent or waits for it; either way it ends now, and Node reaps it. */
async function endChild({ child }: Launched, place: string): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  // What it is just forking is not yet bound to its life (bwrap's child waits for it for ever): so not simply a kill.
  const identity = await identityOf(child.pid, place)
  if (identity !== null) await killTree(identity, place, GONE_MS)
  child.kill('SIGKILL')
  await exited
}

function keepLastWords(child: Launched['child'], words: Buffer[]): void {
  child.on('error', () => {})
  let size = 0
  child.stderr?.on('data', (chunk: Buffer) => {
    if (size < STDERR_MAX) words.push(chunk.subarray(0, STDERR_MAX - size))
    size += chunk.length
  })
}

async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  promise.catch(() => {})
  const aborted = Promise.withResolvers<never>()
  const onAbort = (): void => aborted.reject(signal.reason as Error)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    signal.throwIfAborted()
    return await Promise.race([promise, aborted.promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}

function capabilitiesOf(rung: Rung | null, cgroups: Cgroups | null): Capabilities {
  return {
    languages: LANGUAGES,
    programs: ['script', 'command'],
    network: rung?.network ?? ['none'],
    stdin: true,
    files: true,
    artifacts: true,
    streaming: true,
    sessions: [],
    preloads: [],
    value: true,
    interrupt: true,
    maxMs: null,
    enforces: [
      ...new Set([
        ...(rung?.enforces ?? []),
        ...(cgroups === null ? [] : (['memory', 'cpus', 'pids'] as const)),
      ]),
    ],
    measures: ['cpu_ms', 'peak_memory_bytes', 'wall_ms'],
  }
}

function limitFeatures(capabilities: Capabilities, cgroups: Cgroups | null): string[] {
  const missing = (['memory', 'cpus', 'pids', 'disk'] as const).filter(
    (l) => !capabilities.enforces.includes(l),
  )
  return [
    cgroups === null
      ? 'no writable cgroup: memory is watched and killed every 25 ms, processes are limited by RLIMIT_NPROC, CPU is not'
      : `memory, CPU and processes limited by cgroup ${cgroups.version}`,
    ...(missing.length > 0 ? [`not enforced: ${missing.join(', ')}`] : []),
  ]
}
