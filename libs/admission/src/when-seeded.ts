/**
 * Calls of one run of the Redis server:
 *
 *   another_run ─► the server was replaced, which a cluster's client need not notice: asked again who it is
 *   unseeded ─► the tenant's counters are those of an earlier run: made good from the audit rows
 */
import { setTimeout as pause } from 'node:timers/promises'
import { numberAt, textAt, type Reply } from './scripts.ts'
import type { Unseeded } from './seed.ts'
import type { ServerRun } from './server-run.ts'

/** Seeding is repeated when caps were set meanwhile or the server restarted again; more often than this is trouble. */
const MAX_TRIES = 5
/** After a failover the client of a cluster may know the new master a moment later; grows with each try. */
const REPLACED_MS = 50

export interface WhenSeededDeps {
  serverRun: ServerRun
  seed(tenantId: string, told: Unseeded): Promise<void>
}

/** The first reply from the run of the server that the call names, and its name; null when there is none. */
export async function inThisRun(
  serverRun: ServerRun,
  call: (run: string) => Promise<Reply>,
): Promise<{ reply: Reply; run: string } | null> {
  for (let tried = 1; tried <= MAX_TRIES; tried++) {
    const run = await serverRun.read()
    const reply = await call(run)
    if (reply.code !== 'another_run') return { reply, run }
    serverRun.forget()
    await pause(tried * REPLACED_MS)
  }
  return null
}

/** The first reply that is not `unseeded`, and under which run of the server it was given; null when there is none. */
export async function whenSeeded(
  tenantId: string,
  deps: WhenSeededDeps,
  call: (serverRun: string) => Promise<Reply>,
): Promise<{ reply: Reply; serverRun: string } | null> {
  for (let tried = 0; tried < MAX_TRIES; tried++) {
    const answer = await inThisRun(deps.serverRun, call)
    if (answer === null) return null
    const { reply, run: serverRun } = answer
    if (reply.code !== 'unseeded') return { reply, serverRun }
    await deps.seed(tenantId, { serverRun, nowMs: numberAt(reply, 0), capsRev: textAt(reply, 1) })
  }
  return null
}
