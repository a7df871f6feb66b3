/** Calls that count: repeated when the tenant's counters are those of another life of the Redis server, which are made good first. */
import { numberAt, textAt, type Reply } from './scripts.ts'
import type { Unseeded } from './seed.ts'

/** Seeding is repeated when caps were set meanwhile or the server restarted again; more often than this is trouble. */
const MAX_TRIES = 5

export interface WhenSeededDeps {
  serverRun(): Promise<string>
  seed(tenantId: string, told: Unseeded): Promise<void>
}

/** The first reply that is not `unseeded`, and under which run of the server it was given; null when there is none. */
export async function whenSeeded(
  tenantId: string,
  deps: WhenSeededDeps,
  call: (serverRun: string) => Promise<Reply>,
): Promise<{ reply: Reply; serverRun: string } | null> {
  for (let tried = 0; tried < MAX_TRIES; tried++) {
    const serverRun = await deps.serverRun()
    const reply = await call(serverRun)
    if (reply.code !== 'unseeded') return { reply, serverRun }
    await deps.seed(tenantId, { serverRun, nowMs: numberAt(reply, 0), capsRev: textAt(reply, 1) })
  }
  return null
}
