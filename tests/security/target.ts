/** The backends under attack, each in its own worker process. */
import { spawn, type ChildProcess } from 'node:child_process'
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Capabilities, ExecutionRequestInput, Outcome, SandboxRef, StopCause } from '@cofferdam/contract'
import { defaultRuntimeDir } from '@cofferdam/sandbox/backend'
import type { PartName } from '@cofferdam/embedded/needs'
import type { FromWorker, ToWorker, WorkerSettings } from './worker-process.ts'

/** In the environment of every worker. No program may ever see it. */
export const WORKER_SECRET = 'worker-secret-4f1c9a7e2b'
/**
 * A user that owns nothing on a usual host. It is different for every test run, because the kernel counts
 * processes per user, and a user may signal all of its own processes.
 */
const PLAIN_UID = 1_700_000_000 + process.pid
const here = (name: string): string => fileURLToPath(new URL(name, import.meta.url))

export interface TargetKind {
  name: string
  backend: WorkerSettings['backend']
  section: Record<string, unknown>
  /** `user`: the worker runs as a user without any rights. `root`: it runs as the user of the test. */
  as: 'root' | 'user'
  /** Parts of this machine that the target needs. */
  needs: readonly PartName[]
  /**
   * The kernel that programs talk to. If it is not the host's, the host sees none of a program's processes.
   */
  kernel: 'host' | 'gvisor' | 'guest'
  warm: WorkerSettings['warm']
  egress: WorkerSettings['egress']
}

/** Sandboxes that may wait on a warm target: enough for the next execution, few for two cores. */
export const IDLE_MAX = 2
/** Cells that may wait on any target. One more replaces an older one. */
export const CELLS_MAX = 4
/**
 * Sandboxes of only one kind may wait, so there are at most `IDLE_MAX`. Cells are never idle for longer than
 * a test.
 */
const WARM = {
  pools: { max_idle: IDLE_MAX, max_kinds: 1, start: [] },
  cells: { max: CELLS_MAX, max_per_tenant: 1 },
}
/** Pools are off, so every execution starts its own sandbox. Cells have the limits of `WARM`. */
const COLD = { pools: { enabled: false, start: [] }, cells: WARM.cells }

/** A target. Without `more`, its worker runs as the user of the test, and no pool keeps sandboxes waiting. */
export const kind = (
  name: string,
  backend: TargetKind['backend'],
  section: Record<string, unknown>,
  more: Partial<TargetKind> = {},
): TargetKind => ({
  name,
  backend,
  section,
  as: 'root',
  needs: [],
  kernel: 'host',
  warm: COLD,
  egress: null,
  ...more,
})

const isRoot = process.getuid?.() === 0

/** A worker without any rights. A test that runs as root starts it by setpriv. */
const asUser = (name: string, section: Record<string, unknown>, parts: readonly PartName[]): TargetKind =>
  kind(name, 'process', section, {
    as: 'user',
    needs: [...parts, ...(isRoot ? (['setpriv', 'open-clone'] as const) : [])],
  })

export const TARGETS: readonly TargetKind[] = [
  kind('docker', 'docker', { transport: 'attach' }, { needs: ['docker'] }),
  kind('docker warm', 'docker', { transport: 'socket' }, { needs: ['docker'], warm: WARM }),
  kind('gvisor', 'gvisor', {}, { needs: ['gvisor'], kernel: 'gvisor' }),
  kind('microvm', 'microvm', {}, { needs: ['microvm'], kernel: 'guest' }),
  kind('bwrap as root', 'process', { jail: 'bwrap' }, { needs: ['root', 'bwrap'] }),
  kind('bwrap warm', 'process', { jail: 'bwrap' }, { needs: ['root', 'bwrap'], warm: WARM }),
  asUser('bwrap as a user', { jail: 'bwrap' }, ['bwrap', 'unprivileged-namespaces']),
  kind('self-jail as root', 'process', { jail: 'self' }, { needs: ['root', 'self-jail'] }),
  asUser('self-jail as a user', { jail: 'self' }, ['self-jail', 'unprivileged-namespaces']),
  asUser('self-jail without namespaces', { jail: 'self', namespaces: false }, ['landlock-jail']),
]

/** The two targets that most fleets have. The others differ in kernel, worker user, and what waits. */
export const isDaily = ({ name }: TargetKind): boolean => ['docker warm', 'bwrap as root'].includes(name)
/** One target for each kind of isolation, for attacks that isolation itself must stop. */
export const isOfEachKind = (kind: TargetKind): boolean =>
  isDaily(kind) || ['gvisor', 'self-jail as a user'].includes(kind.name)
/** True if sandboxes wait for executions. */
export const isWarm = ({ warm }: TargetKind): boolean => warm === WARM
/** For tests where it makes no difference whether a sandbox was started earlier. */
export const isCold = (kind: TargetKind): boolean => !isWarm(kind)

export interface Ended {
  outcome: Outcome
  stdout: string
  stderr: string
  notices: string[]
  /** Milliseconds from the begin to the outcome. */
  ms: number
}

export interface Attack {
  readonly began: Promise<SandboxRef>
  /** Resolves when the program's live output contains `text`. */
  said(text: string): Promise<void>
  /** Resolves with the outcome, perhaps before the sandbox is gone. */
  readonly outcome: Promise<Ended>
  /** Resolves with the outcome when the sandbox is proven gone. */
  readonly gone: Promise<Ended>
  stop(cause: StopCause): void
}

export interface Target extends AsyncDisposable, TargetKind {
  /** Null when the target works here. Otherwise the reason why it does not. */
  readonly absent: string | null
  /** Pid of the worker. */
  readonly pid: number
  readonly owner: string
  readonly runtimeDir: string
  readonly blobDir: string
  /** Features that the probe reports. */
  readonly features: readonly string[]
  readonly capabilities: Capabilities | null
  /** Slots that single executions used up. Nothing of them may be left when they are over. */
  readonly spent: ReadonlySet<string>
  /** Slots of cells, which may wait. */
  readonly cells: ReadonlySet<string>
  start(request: Partial<ExecutionRequestInput>): Attack
  /** Cancels what still runs and waits for its end, after tests that failed half-way. */
  settle(): Promise<void>
  /** Runs a program to the proven end of its sandbox. */
  run(request: Partial<ExecutionRequestInput>): Promise<Ended>
  /** Runs a Python program that prints one JSON text. */
  ask<T = Record<string, string>>(
    program: ExecutionRequestInput['program'],
    more?: Partial<ExecutionRequestInput>,
  ): Promise<T>
}

export const python = (source: string): ExecutionRequestInput['program'] => ({
  type: 'script',
  language: 'python',
  source,
})
export const bash = (source: string): ExecutionRequestInput['program'] => ({
  type: 'script',
  language: 'bash',
  source,
})

interface Waiting {
  text: string
  listeners: Set<() => void>
  began: PromiseWithResolvers<SandboxRef>
  outcome: PromiseWithResolvers<Ended>
  gone: PromiseWithResolvers<Ended>
  ended: Ended | null
  isCell: boolean
}

/** Starts the worker of a target. Never rejects for a backend that cannot run here, see `absent`. */
export async function startTarget(of: TargetKind): Promise<Target> {
  const base = mkdtempSync(join(tmpdir(), 'cofferdam-attack-'))
  chmodSync(base, 0o755)
  const runtimeDir = join(base, 'run')
  const blobDir = join(base, 'blobs')
  const isUser = of.as === 'user' && isRoot
  for (const folder of [runtimeDir, blobDir]) {
    mkdirSync(folder)
    if (isUser) chownSync(folder, PLAIN_UID, PLAIN_UID)
  }
  if (of.backend === 'microvm' && of.section['image_dir'] === undefined) shareTemplates(runtimeDir)
  const settings: WorkerSettings = {
    backend: of.backend,
    section: sectionOf(of, runtimeDir),
    warm: of.warm,
    egress: of.egress,
    blobDir,
    fleet: 'bad0bad0bad0',
  }
  const ready = Promise.withResolvers<Extract<FromWorker, { kind: 'ready' }>>()
  const attacks = new Map<number, Waiting>()
  const [spent, cells] = [new Set<string>(), new Set<string>()]
  const child = launch(of, isUser, settings)
  let said = ''
  child.stderr?.on('data', (chunk: Buffer) => (said = (said + chunk.toString()).slice(-2000)))
  child.on('message', (message: FromWorker) => {
    if (message.kind === 'ready') ready.resolve(message)
    else {
      const attack = attacks.get(message.id)
      if (message.kind === 'began' && attack !== undefined)
        (attack.isCell ? cells : spent).add(String(message.ref.handle['slot']))
      hear(attacks, message)
    }
  })
  const exited = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  void exited.then(() => {
    const why = new Error(`the worker ended: ${said}`)
    ready.reject(why)
    for (const attack of attacks.values())
      for (const part of [attack.began, attack.outcome, attack.gone]) part.reject(why)
  })
  let absent: string | null = null
  let features: readonly string[] = []
  let owner = ''
  let capabilities: Capabilities | null = null
  try {
    const { probe, ...rest } = await ready.promise
    ;({ owner, capabilities } = rest)
    if (probe.ok) features = probe.features
    else absent = `${probe.why} ${probe.fix}`
  } catch (error) {
    absent = error instanceof Error ? error.message : String(error)
  }
  let next = 0
  // A worker that was just killed gets no message, and its exit reports that.
  const send = (message: ToWorker): void => void child.send(message, () => undefined)

  const target: Target = {
    ...of,
    absent,
    pid: child.pid ?? -1,
    owner,
    runtimeDir,
    blobDir,
    features,
    capabilities,
    spent,
    cells,
    start(request) {
      const id = next++
      const waiting: Waiting = {
        text: '',
        listeners: new Set(),
        began: Promise.withResolvers(),
        outcome: Promise.withResolvers(),
        gone: Promise.withResolvers(),
        ended: null,
        isCell: request.session !== undefined || (request.reuse ?? 'job') !== 'job',
      }
      for (const part of [waiting.began, waiting.outcome, waiting.gone]) part.promise.catch(() => {})
      attacks.set(id, waiting)
      send({ kind: 'start', id, request: { backend: of.backend, ...request } })
      return {
        began: waiting.began.promise,
        outcome: waiting.outcome.promise,
        gone: waiting.gone.promise,
        stop: (cause) => send({ kind: 'stop', id, cause }),
        said: (text) => heard(waiting, text),
      }
    },
    run: (request) => target.start(request).gone,
    async settle() {
      const left = [...attacks]
      for (const [id] of left) send({ kind: 'stop', id, cause: 'cancelled' })
      await Promise.allSettled(left.map(([, attack]) => attack.gone.promise))
    },
    async ask(program, more) {
      const { stdout, outcome, stderr } = await target.run({ ...more, program })
      if (outcome.ending !== 'ok') throw new Error(`${outcome.ending}: ${outcome.failureReason} ${stderr}`)
      return JSON.parse(stdout)
    },
    async [Symbol.asyncDispose]() {
      if (child.connected) send({ kind: 'close' })
      await exited
      rmSync(base, { recursive: true, force: true })
    },
  }
  return target
}

/**
 * Lets the machines of a target start as clones of the templates in the default folder, which an earlier
 * check of this machine has made. A boot takes as long as many attacks. Nobody changes a template.
 */
function shareTemplates(runtimeDir: string): void {
  const templates = join(defaultRuntimeDir(), 'microvm/templates')
  mkdirSync(templates, { recursive: true, mode: 0o700 })
  mkdirSync(join(runtimeDir, 'microvm'), { mode: 0o700 })
  symlinkSync(templates, join(runtimeDir, 'microvm/templates'))
}

/** Puts everything that a backend creates on the host below the target's own folder. */
export function sectionOf({ backend, section }: TargetKind, runtimeDir: string): Record<string, unknown> {
  if (backend === 'docker' || backend === 'gvisor')
    return { ...section, runtime_dir: join(runtimeDir, 'sockets') }
  return { ...section, runtime_dir: runtimeDir }
}

function launch(of: TargetKind, isUser: boolean, settings: WorkerSettings): ChildProcess {
  const worker = [process.execPath, here('worker-process.ts'), JSON.stringify(settings)]
  const ids = [`--reuid=${PLAIN_UID}`, `--regid=${PLAIN_UID}`, '--clear-groups', '--inh-caps=-all']
  const [command = '', ...args] = isUser ? ['setpriv', ...ids, ...worker] : worker
  const { PATH, DOCKER_HOST, NODE_COMPILE_CACHE } = process.env
  return spawn(command, args, {
    stdio: ['ignore', 'inherit', 'pipe', 'ipc'],
    cwd: '/',
    env: {
      PATH,
      DOCKER_HOST,
      NODE_COMPILE_CACHE,
      WORKER_SECRET,
      REDIS_URL: `redis://:${WORKER_SECRET}@localhost`,
    },
  })
}

function hear(attacks: Map<number, Waiting>, message: Exclude<FromWorker, { kind: 'ready' }>): void {
  const attack = attacks.get(message.id)
  if (attack === undefined) return
  switch (message.kind) {
    case 'began':
      return attack.began.resolve(message.ref)
    case 'output':
      attack.text += message.text
      for (const listener of attack.listeners) listener()
      return
    case 'outcome': {
      const { outcome, notices, ms } = message
      attack.ended = { outcome, notices, ms, stdout: outcome.stdout.text, stderr: outcome.stderr.text }
      attack.began.reject(new Error(`it never began: ${outcome.ending} ${outcome.failureReason}`))
      return attack.outcome.resolve(attack.ended)
    }
    case 'gone':
      attacks.delete(message.id)
      if (message.leaked.length > 0)
        attack.gone.reject(new Error(`not proven gone: ${message.leaked.join()}`))
      else if (attack.ended !== null) attack.gone.resolve(attack.ended)
      return
    case 'failed':
      attacks.delete(message.id)
      for (const part of [attack.began, attack.outcome, attack.gone]) part.reject(new Error(message.message))
  }
}

async function heard(attack: Waiting, text: string): Promise<void> {
  const found = Promise.withResolvers<void>()
  const listen = (): void => {
    if (attack.text.includes(text)) found.resolve()
  }
  attack.listeners.add(listen)
  listen()
  const ended = attack.outcome.promise.then((end) => {
    if (!attack.text.includes(text))
      throw new Error(`it ended before it said "${text}": ${JSON.stringify(end)}`)
  })
  await Promise.race([found.promise, ended]).finally(() => attack.listeners.delete(listen))
}
