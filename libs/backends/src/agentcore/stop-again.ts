/**
 * A data plane that forgets no session that was to be stopped: what it could not stop, it stops when it is next told to look. Nobody
 * else does before this worker is dead, and the service only at the session's own time.
 */
import type { DataPlane, SessionPlace } from './data-plane.ts'

/** As many as the account may have at once; what comes then ends at its time. */
const LEFT_MAX = 1000

export interface StoppingPlane extends DataPlane {
  /** Work that ends something at the service, to be done again until it succeeds. `what` names it. */
  later(what: string, work: () => Promise<unknown>): void
  /** Does all of it now, once. Never rejects. */
  stopLeft(): Promise<void>
}

/** The same with a memory of what is left. */
export function stoppingAgain(service: DataPlane): StoppingPlane {
  const left = new Map<string, () => Promise<unknown>>()

  const later = (what: string, work: () => Promise<unknown>): void => {
    if (left.size < LEFT_MAX || left.has(what)) left.set(what, work)
  }

  async function stop(id: SessionPlace): Promise<boolean> {
    const what = `${id.interpreter} ${id.session}`
    try {
      const was = await service.stop(id)
      left.delete(what)
      return was
    } catch (error) {
      later(what, async () => await service.stop(id))
      throw error
    }
  }

  return {
    ...service,
    stop,
    later,
    async stopLeft() {
      await Promise.all(
        [...left].map(async ([what, work]) => {
          const isDone = await work().then(
            () => true,
            () => false,
          )
          if (isDone) left.delete(what)
        }),
      )
    },
  }
}
