/** A registry of sessions whose writes a test intercepts. */
import type { SessionEntry, SessionRegistry } from '@cofferdam/contract'

/** Its leases write each entry through `around`. */
export function keptThrough(
  registry: SessionRegistry,
  around: (write: () => Promise<void>) => Promise<void>,
): SessionRegistry {
  return {
    ...registry,
    async claim(...asked) {
      const lease = await registry.claim(...asked)
      const keep = lease.keep.bind(lease)
      return Object.assign(lease, { keep: (entry: SessionEntry) => around(() => keep(entry)) })
    },
  }
}
