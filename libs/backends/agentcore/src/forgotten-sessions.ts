/** Kept sessions that the registry has lost (remote/forgotten-sessions.ts), by the names that they have at AgentCore. */
import type { SessionRegistry } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import { createForgottenSessions, type KeptSandbox } from '@cofferdam/backend-remote'
import type { DataPlane, Listed } from './data-plane.ts'
import type { Waited } from './warm-sessions.ts'

/** In an entry's handle. */
export const NAME_FIELD = 'name'

export interface ForgottenSessions {
  /** One that waited and is a turn's now: it has its worker's name still, and no sweep takes it while that worker lives. */
  watch(waited: Pick<Waited, 'name' | 'endsAtMs'>): void
  /** Stops those that are among all that run. Never rejects. */
  stopAmong(running: readonly Listed[]): Promise<void>
}

export interface ForgottenParts {
  registry: SessionRegistry
  backend: string
  service: Pick<DataPlane, 'stop'>
  afterMs: number
  /** Whether this fleet gives such names to sessions that are kept. */
  isKept: (name: string) => boolean
  logger: BackendLogger
}

/** Creates it; has looked at nothing yet. */
export function watchForForgotten({ service, isKept, ...parts }: ForgottenParts): ForgottenSessions {
  const watched = new Map<string, number>()
  const end = async ({ place }: KeptSandbox & { place: Listed }): Promise<boolean> =>
    await service.stop(place)
  const forgotten = createForgottenSessions({ ...parts, field: NAME_FIELD, end })

  return {
    watch: ({ name, endsAtMs }) => void watched.set(name, endsAtMs),
    async stopAmong(running) {
      for (const [name, endsAtMs] of watched) if (endsAtMs <= Date.now()) watched.delete(name)
      const kept = running.flatMap((place) => {
        const { session: id, name } = place
        return name !== undefined && (isKept(name) || watched.has(name)) ? [{ id, name, place }] : []
      })
      await forgotten.endAmong(kept)
    },
  }
}
