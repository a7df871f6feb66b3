/** What waits at a vendor waits in the vendor's memory: of the worker's it takes as little as one that runs there. */
import { REMOTE_HOST_MIB } from '@cofferdam/contract'
import type { WarmDeps } from '@cofferdam/sandbox/warm'

const HOST_BYTES = REMOTE_HOST_MIB * 1024 * 1024

/** The same deps, with sandboxes counted as what they take here. */
export const remoteWarm = (warm: WarmDeps): WarmDeps => ({
  ...warm,
  memory: {
    tryAcquire: (bytes) => warm.memory.tryAcquire(Math.min(bytes, HOST_BYTES)),
    onPressure: (listener) => warm.memory.onPressure(listener),
  },
})
