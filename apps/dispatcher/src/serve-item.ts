/**
 * Serves one claimed work item: a session for a while. The SDK keeps the lease, reads the session's events
 * and posts the results. The sandbox and the tools are ours.
 *
 *   prepare a sandbox; handleItem: heartbeat; hold the session; skills, calls …; park or end the sandbox
 *                                                                               │
 *            lease lost, item stopped, turn over for long, session over, another item of it, drain
 */
import { mkdtemp, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@cofferdam/client'
import { nameSchema } from '@cofferdam/contract'
import type { Logger } from '@cofferdam/telemetry'
import type { Redis } from 'ioredis'
import type { EnvironmentConfig } from './config.ts'
import type { ControlPlane, Item } from './control-plane.ts'
import type { Scaler } from './scale/scaler.ts'
import { holdOf } from './session-holder.ts'
import { materialise } from './session-materials.ts'
import { openSessionSandbox, type SessionSandbox } from './session-sandbox.ts'
import { sessionTools } from './session-tools.ts'
import { TOOLSET, TOOLSET_WITHOUT_PROCESSES } from './tools/toolset.ts'
import { whenQuiet } from './when-quiet.ts'

export interface ServeDeps {
  client: Client
  redis: Redis
  environment: EnvironmentConfig
  plane: ControlPlane
  logger: Logger
  /** Where each session has a folder for the skills that the SDK downloads. */
  folder: string
  /** Is told when items arrive and end and when sandboxes are ready. Null if no pool is scaled. */
  scaler: Scaler | null
}

/** An item that is served now. */
export interface Serving {
  readonly item: Item
  /** Resolves when everything of the item has ended. Never rejects. */
  readonly ended: Promise<void>
  /** Whether the session's turn is over, so that stopping interrupts nothing. */
  isIdle(): Promise<boolean>
  /** Ends the item. The control plane makes another one at the session's next message. */
  stop(): void
  /**
   * Keeps the session's outputs as they are now, if no call runs. For a process that is about to exit without
   * stopping the item: when its lease lapses, the item is offered again, and a call that runs is not lost.
   */
  keep(): Promise<void>
  /**
   * Ends the item, because another item of its session begins. A running call goes on, and that item gets its
   * result.
   */
  yield(): void
}

/** Outputs are saved after this long without a call. The agent then thinks, or its turn is over. */
const QUIET_MS = 2000

export function serveItem(item: Item, deps: ServeDeps): Serving {
  const stopping = new AbortController()
  const calls: Calls = { running: 0, sandbox: null }
  return {
    item,
    ended: serve(item, deps, calls, stopping).catch((error: unknown) => {
      if (stopping.signal.aborted) return
      deps.logger.error({ err: error, work_id: item.id, session_id: item.data.id }, 'a work item failed')
    }),
    isIdle: async () => calls.running === 0 && (await deps.plane.ofItem(item).isTurnOver()),
    stop: () => stopping.abort(new Error('the dispatcher stops this work item')),
    yield: () => stopping.abort(superseded()),
    async keep() {
      if (calls.running === 0) await calls.sandbox?.collect()
    },
  }
}

interface Calls {
  running: number
  sandbox: SessionSandbox | null
}

async function serve(
  item: Item,
  { client, redis, environment, plane, logger, folder, scaler }: ServeDeps,
  calls: Calls,
  stopping: AbortController,
): Promise<void> {
  const sessionId = item.data.id
  await using owned = new AsyncDisposableStack()
  const workdir = await mkdtemp(join(folder, 'session-'))
  owned.defer(() => rm(workdir, { recursive: true, force: true }))
  const hold = owned.use(holdOf(redis, { environmentId: environment.id, sessionId, workId: item.id }))
  // Takes the session only after an accepted heartbeat. If another process has the lease of this item, this
  // process cannot answer calls. So it must not take the session from an item that can.
  using _lease = plane.onLease(item, () => hold.take())
  const sandbox = openSessionSandbox({
    client,
    environment,
    sessionId,
    logger,
    onReady: (tookMs) => scaler?.onSandboxReady(environment.id, tookMs),
    hold,
  })
  calls.sandbox = sandbox
  // Neither the event stream nor the SDK shows that the session ended before the stream began. So the
  // dispatcher checks it here.
  const endIfOver = async () => {
    if (await plane.ofItem(item).isSessionOver()) stopping.abort(new Error('the session has ended'))
  }
  using _stream = plane.onStream(sessionId, () => void endIfOver())
  using outputs = whenQuiet(QUIET_MS, () => sandbox.collect())
  const worker = plane.client.beta.environments.work.worker({
    workdir,
    maxIdleMs: environment.max_idle_ms,
    // We sync the memory stores ourselves (session-materials.ts), because the agent changes them in our
    // sandbox.
    memorySyncIntervalMs: null,
    tools(context) {
      const materials = materialise(context, workdir, sandbox, logger)
      // Each call is answered with this error. It is logged here because there may be no call.
      materials.catch((error: unknown) =>
        logger.warn(
          { err: error, session_id: sessionId },
          'skills or memories of a session were not provided',
        ),
      )
      return sessionTools({
        toolset: environment.shell === 'kept' ? TOOLSET : TOOLSET_WITHOUT_PROCESSES,
        sandbox,
        hold,
        materials,
        agentId: agentOf(context.session?.agent.id, environment),
        onCall(change) {
          calls.running += change
          outputs.postpone()
        },
        onSucceeded: () => stopping.abort(superseded()),
        isStopped: () => plane.isStopped(item),
        async onClosed() {
          if ((await hold.successor()) !== null) return
          await materials.then((all) => all.finish()).catch(() => undefined)
          await sandbox.collect()
        },
      })
    },
  })
  try {
    await worker.handleItem({
      workId: item.id,
      environmentId: environment.id,
      sessionId,
      ...(item.secret == null ? {} : { workSecret: item.secret }),
      environmentKey: plane.key,
      signal: stopping.signal,
    })
  } finally {
    if ((await hold.successor()) === null && (await plane.ofItem(item).isSessionOver())) {
      // If the SDK never started its tool runner, nothing has saved the outputs yet.
      await sandbox.collect()
      await sandbox.end()
    }
  }
}

const superseded = (): Error => new Error('another work item of this session began')

/** The session's agent, under whose name its calls are counted and audited. */
function agentOf(id: string | undefined, environment: EnvironmentConfig): string {
  const known = nameSchema.safeParse(id)
  return known.success ? known.data : environment.agent_id
}
