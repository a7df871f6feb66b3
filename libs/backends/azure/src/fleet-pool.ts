/**
 * The `azure` backend for workers whose settings name no pool. It uses the pool of the fleet's configuration.
 * After a change, new sandboxes open in the new pool. Running ones stay where they are, and are ended there
 * while this worker remembers that pool.
 *
 *   configured A ──open──▶ at A        configured B ──open──▶ at B, and A is remembered ──kill, sweep──▶ at B and at A
 */
import type { Backend, Probe } from '@cofferdam/contract'
import type { BackendLogger } from '@cofferdam/sandbox/backend'

/** The pool of the fleet's configuration. */
export interface FleetPool {
  /** Returns the configured endpoint, or '' for none. Rejects if it cannot be read. */
  configured(): Promise<string>
  /** The endpoint that the last execution was allowed to use, or '' before the first. */
  readonly allowed: string
}

/** Remembered pools. An operator changes the pool rarely, and the cooldown ends what forgotten pools hold. */
const REMEMBERED_MAX = 4

/** Creates the backend. `at` creates the backend of one pool, or one that reports the missing setting. */
export function createFleetPoolBackend(
  at: (endpoint?: string) => Backend,
  pool: FleetPool,
  logger: BackendLogger,
): Backend {
  const unset = at()
  /** By endpoint, the last used at the end. */
  const remembered = new Map<string, Backend>()

  function of(endpoint: string): Backend {
    if (endpoint === '') return unset
    const backend = remembered.get(endpoint) ?? at(endpoint)
    remembered.delete(endpoint)
    remembered.set(endpoint, backend)
    const [oldest] = remembered.keys()
    if (remembered.size > REMEMBERED_MAX && oldest !== undefined) remembered.delete(oldest)
    return backend
  }

  /**
   * Asks all remembered pools. Only the newest pool's error is thrown, because a removed pool must not keep
   * the others from being swept.
   */
  async function everywhere<T>(ask: (backend: Backend) => Promise<T>): Promise<T[]> {
    const [newest = unset, ...others] = [...remembered.values()].toReversed()
    const asked = others.map(async (backend) => {
      try {
        return [await ask(backend)]
      } catch (error) {
        logger.warn({ err: error }, 'azure: a pool that was configured before does not answer')
        return []
      }
    })
    return [await ask(newest), ...(await Promise.all(asked)).flat()]
  }

  const { name, isolation, capabilities } = unset
  return {
    name,
    isolation,
    capabilities,
    async probe(signal): Promise<Probe> {
      signal.throwIfAborted()
      let endpoint: string
      try {
        endpoint = await pool.configured()
      } catch {
        return {
          ok: false,
          why: 'Azure: the sandbox configuration cannot be read, which names the pool.',
          fix: 'See that Postgres answers, or name the pool in backends.azure.',
        }
      }
      return await of(endpoint).probe(signal)
    },
    open: (spec, signal) => of(pool.allowed).open(spec, signal),
    kill: async (ref) => (await everywhere((backend) => backend.kill(ref))).some(Boolean),
    async sweep(owner) {
      const swept = await everywhere((backend) => backend.sweep(owner))
      return { destroyed: swept.reduce((sum, { destroyed }) => sum + destroyed, 0) }
    },
    owners: async () => [...new Set((await everywhere((backend) => backend.owners())).flat())],
    endSession: async (...asked) =>
      (await everywhere(async (backend) => (await backend.endSession?.(...asked)) ?? false)).some(Boolean),
    async [Symbol.asyncDispose]() {
      await Promise.all([...remembered.values()].map((backend) => backend[Symbol.asyncDispose]()))
    },
  }
}
