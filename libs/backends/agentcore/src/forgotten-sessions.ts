/** Finds kept sessions that the registry lost (remote/forgotten-sessions.ts), by their names. */
import type { SessionRegistry } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'
import { createForgottenSessions, type KeptSandbox } from '@cofferdam/backend-remote'
import type { DataPlane, Listed } from './data-plane.ts'
import type { Waited } from './warm-sessions.ts'

/** Field of an entry's handle that holds the session's name. */
export const NAME_FIELD = 'name'

export interface ForgottenSessions {
  /**
   * A turn took over this warm session. Its name contains its first worker, so no sweep stops it while that
   * worker lives. From now on `stopAmong` checks it too.
   */
  watch(waited: Pick<Waited, 'name' | 'endsAtMs'>): void
  /** Stops the forgotten ones among all running sessions. Never rejects. */
  stopAmong(running: readonly Listed[]): Promise<void>
}

export interface ForgottenParts {
  registry: SessionRegistry
  backend: string
  service: Pick<DataPlane, 'stop'>
  afterMs: number
  /** Whether this fleet gives kept sessions names of this form. */
  isKept: (name: string) => boolean
  logger: BackendLogger
}

/** Starts with nothing watched. */
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
