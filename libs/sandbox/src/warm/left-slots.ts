/**
 * Slots that nobody holds and whose destroy failed. The worker kills each by its ref until it is gone.
 *
 * The slot's share of the memory budget stays taken until then, because its sandbox may still use it. If the
 * worker gives up (it closes, or it has too many of them), the share is never released. That is safe: the
 * worker starts fewer sandboxes than it could, and never more than its memory holds.
 */
import type { SandboxId } from '@cofferdam/contract'
import type { BackendDeps, BackendLogger } from '../deps.ts'
import { refOf, type Slot } from './slot.ts'

export interface LeftSlots {
  /** Never rejects, and does not wait. `error` is why its destroy failed. */
  add(slot: Slot, memory: Disposable | null, error: unknown): void
}

export function createLeftSlots(parts: {
  backend: string
  onLeft?: BackendDeps['onLeft'] | undefined
  logger: BackendLogger
}): LeftSlots {
  const { backend, onLeft, logger } = parts
  return {
    add(slot, memory, error) {
      const id: SandboxId = slot.spec.slotId
      logger.warn({ err: error, backend, slot: id }, 'a waiting sandbox was not destroyed')
      void onLeft?.(refOf(backend, id, slot)).then((isGone) => {
        if (isGone) memory?.[Symbol.dispose]()
      })
    },
  }
}
