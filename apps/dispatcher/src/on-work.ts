/**
 * Hands a claimed work item to a program of the operator, as `ant beta:worker poll --on-work` does. The
 * program serves the item, keeps its lease with heartbeats and answers the tool calls. Here it is only run
 * and ended.
 *
 *   hold the session ─ start, with the item on stdin ─ wait for its exit ─ end what it left ─ stop the item
 *                                     └── stop(): SIGTERM to its process group, SIGKILL after 30 s
 */
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as after } from 'node:timers/promises'
import { CofferdamError } from '@cofferdam/contract'
import { programVariables, type EnvironmentConfig } from './config.ts'
import type { ControlPlane, Item } from './control-plane.ts'
import { logLines } from './log-lines.ts'
import type { ServeDeps, Serving } from './serve-item.ts'
import { holdOf } from './session-holder.ts'

/** The grace that `ant` gives, milliseconds. */
const GRACE_MS = 30_000
const LOOK_MS = 50
/**
 * How long the output is still read after the program ended. A process that left the group may keep it open.
 */
const LAST_OUTPUT_MS = 1000

type Program = ChildProcessByStdio<Writable, Readable, Readable>

/** Throws `config_invalid` if there is no such program. Without one the dispatcher must not claim items. */
export async function requireProgram(path: string): Promise<void> {
  await access(path, constants.X_OK).catch((cause: unknown) => {
    throw new CofferdamError(
      'config_invalid',
      `on_work: ${path} cannot be run. Is it there, and executable?`,
      {
        cause,
      },
    )
  })
}

/** Starts `program` for the item. `graceMs` is the time between SIGTERM and SIGKILL. */
export function serveByProgram(
  item: Item,
  program: string,
  deps: Pick<ServeDeps, 'redis' | 'environment' | 'plane' | 'logger'>,
  graceMs = GRACE_MS,
): Serving {
  const stopping = new AbortController()
  const serve = async (): Promise<void> => {
    const { redis, environment, plane, logger } = deps
    const session = { environmentId: environment.id, sessionId: item.data.id, workId: item.id }
    await using hold = holdOf(redis, session)
    hold.take()
    await hold.taken
    if (!stopping.signal.aborted) {
      const status = await run(item, program, deps, { signal: stopping.signal, graceMs })
      if (status !== 0 && !stopping.signal.aborted)
        logger.warn({ work_id: item.id, session_id: item.data.id, status }, 'the program of on_work failed')
    }
    // The lease lapsed, and another dispatcher serves the item now.
    if ((await hold.successor()) === 'same') return
    await stopUnlessStopped(item, plane)
  }
  return {
    item,
    // An item whose program did not start is not stopped: when its lease lapses, it is offered again.
    ended: serve().catch((error: unknown) =>
      deps.logger.error({ err: error, work_id: item.id, session_id: item.data.id }, 'a work item failed'),
    ),
    isIdle: () => deps.plane.ofItem(item).isTurnOver(),
    stop: () => stopping.abort(),
    yield: () => stopping.abort(),
    keep: async () => undefined,
  }
}

/** Resolves with the exit status, or the signal's name, when the program's process group is gone. */
async function run(
  item: Item,
  program: string,
  { environment, plane, logger }: Pick<ServeDeps, 'environment' | 'plane' | 'logger'>,
  { signal, graceMs }: { signal: AbortSignal; graceMs: number },
): Promise<number | NodeJS.Signals> {
  // Loaded only where an environment is served.
  const { sessionsTokenFromSecret } = await import('@anthropic-ai/sdk/lib/environments/worker')
  const child: Program = spawn(resolve(program), [], {
    // A process group of its own, which can be ended as a whole.
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
    env: variablesOf(item, environment, plane.key),
  })
  const closed = new Promise<void>((resolveClosed) => child.once('close', () => resolveClosed()))
  const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
  // A program that does not read its input may end before the input is written.
  child.stdin.on('error', () => undefined)
  child.stdin.end(`${JSON.stringify(item)}\n`)
  const secrets = [item.secret, sessionsTokenFromSecret(item.secret), plane.key].filter(
    (text) => text != null,
  )
  for (const stream of [child.stdout, child.stderr])
    logLines(stream, secrets, (line) =>
      logger.info({ work_id: item.id, session_id: item.data.id, line }, 'the program of on_work wrote'),
    )
  if (child.pid === undefined) await exited
  const group = child.pid ?? 0
  await untilExitOrStop(exited, signal)
  await endGroup(group, graceMs)
  const [code, killedBy] = await exited
  await Promise.race([closed, after(LAST_OUTPUT_MS)])
  for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
  return code ?? killedBy ?? 0
}

/**
 * The variables that `ant` sets. The program does not need the environment key, as the item's secret serves
 * the item. With the key, whatever runs in the program could claim every session of the environment.
 */
function variablesOf(item: Item, environment: EnvironmentConfig, key: string): Record<string, string> {
  return {
    ...programVariables(),
    ANTHROPIC_BASE_URL: environment.base_url,
    ANTHROPIC_ENVIRONMENT_ID: environment.id,
    ANTHROPIC_SESSION_ID: item.data.id,
    ANTHROPIC_WORK_ID: item.id,
    ...(item.secret == null ? {} : { ANTHROPIC_WORK_SECRET: item.secret }),
    ...(environment.on_work_key ? { ANTHROPIC_ENVIRONMENT_KEY: key } : {}),
  }
}

async function untilExitOrStop(exited: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const { promise, resolve: stopped } = Promise.withResolvers<void>()
  signal.addEventListener('abort', () => stopped(), { once: true })
  if (signal.aborted) return
  await Promise.race([exited, promise])
}

/** Asks every process of the group to end, and kills those that are left after the grace. */
async function endGroup(group: number, graceMs: number): Promise<void> {
  const deadlineMs = Date.now() + graceMs
  if (!signalGroup(group, 'SIGTERM')) return
  while (Date.now() < deadlineMs) {
    await after(LOOK_MS)
    if (!signalGroup(group, 0)) return
  }
  signalGroup(group, 'SIGKILL')
}

/** False if the group has no process any more. */
function signalGroup(group: number, signal: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(-group, signal)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/**
 * A program that uses the SDK's worker has already stopped its item (409). The item of a deleted session is
 * gone (404).
 */
async function stopUnlessStopped(item: Item, plane: Pick<ControlPlane, 'stop'>): Promise<void> {
  try {
    await plane.stop(item)
  } catch (error) {
    const status = error instanceof Error && 'status' in error ? error.status : undefined
    if (status !== 404 && status !== 409) throw error
  }
}
