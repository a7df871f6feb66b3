/**
 * Repeats script calls until one run of the Redis server answers them:
 *
 *   another_run ─► the server was replaced, which a cluster's client may not notice: ask for its run ID again
 *   unseeded ─► the tenant's counters are those of an earlier run: restore them from the audit rows
 */
import { setTimeout as pause } from 'node:timers/promises'
import { numberAt, textAt, type Reply } from './scripts.ts'
import type { Unseeded } from './seed.ts'
import type { ServerRun } from './server-run.ts'

/** Seeding repeats if caps were set meanwhile or the server restarted again. More repeats mean a fault. */
const MAX_TRIES = 5
/** After a failover a cluster's client may learn of the new master late. The pause grows with each try. */
const REPLACED_MS = 50

export interface WhenSeededDeps {
  serverRun: ServerRun
  seed(tenantId: string, told: Unseeded): Promise<void>
}

/**
 * Repeats `call` until the server's run is the one that the call names. Returns the reply and that run, or
 * null after MAX_TRIES calls.
 */
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

/**
 * Repeats `call`, and seeds the tenant after each reply `unseeded`. Returns the first other reply with the
 * server's run, or null after MAX_TRIES calls.
 */
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
