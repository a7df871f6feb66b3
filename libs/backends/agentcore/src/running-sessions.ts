/** Running sessions in every interpreter that is configured, recorded, or was used by this worker. */
import type { WorkerId } from '@cofferdam/contract'
import { isGone, openFailure } from './classify-failure.ts'
import type { AgentcoreConfig } from './config.ts'
import type { DataPlane, Listed } from './data-plane.ts'
import type { Interpreters } from './interpreters.ts'
import { ownerIn } from './session-name.ts'

/** A thousand interpreters need a thousand calls. Few at once, so that other calls need not wait long. */
const LISTS_AT_ONCE = 4

export interface RunningSessions {
  /** Records that this worker opened a session in the interpreter. */
  use(interpreter: string): void
  interpreters(): Promise<string[]>
  /**
   * All running sessions, including other workers'. Throws errors such as `backend_unavailable` and
   * `store_unavailable`.
   */
  list(): Promise<Listed[]>
}

export function createRunningSessions(
  service: Pick<DataPlane, 'list'>,
  configured: AgentcoreConfig['interpreters'],
  onRecord: Interpreters | undefined,
): RunningSessions {
  const used = new Set<string>()

  async function interpreters(): Promise<string[]> {
    const { 'default-public': open, 'internal-only': closed } = configured
    const all = [open, closed, ...used, ...((await onRecord?.all?.()) ?? [])]
    return [...new Set(all.filter((id) => id !== undefined))]
  }

  async function listIn(interpreter: string): Promise<Listed[]> {
    try {
      return await service.list(interpreter)
    } catch (error) {
      // A deleted interpreter has no sessions.
      if (isGone(error)) return []
      throw openFailure(error, 'list')
    }
  }

  return {
    use: (interpreter) => void used.add(interpreter),
    interpreters,
    async list() {
      const ids = await interpreters()
      const found: Listed[] = []
      while (ids.length > 0)
        found.push(...(await Promise.all(ids.splice(0, LISTS_AT_ONCE).map(listIn))).flat())
      return found
    },
  }
}

/** The sessions whose names contain a worker, each with that worker. */
export const ownedAmong = (
  prefix: string,
  listed: readonly Listed[],
): (Listed & { name: string; owner: WorkerId })[] =>
  listed.flatMap((one) => {
    const owner = ownerIn(prefix, one.name)
    return owner === null || one.name === undefined ? [] : [{ ...one, name: one.name, owner }]
  })
