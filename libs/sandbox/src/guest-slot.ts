/** A started sandbox with a waiting guest agent, as pools and cells hold it. */
import { CofferdamError, type Exit, type SandboxSpec, type Usage } from '@cofferdam/contract'
import type { GuestSession } from './guest/index.ts'
import type { CellSlot, SlotSpec } from './warm/slot.ts'

/** What the worker's host sees of one run, in addition to what the agent reports. */
export interface RunWatch {
  /** Adds what was seen to the agent's report of the run. */
  addTo(exit: Exit): Exit
  /** Use since the run's start, measured from outside; null if only the agent can tell. */
  usage(): Partial<Usage> | null
  /** True if the kernel killed for memory during the run. Called if the agent is gone. */
  killedForMemory(): boolean | Promise<boolean>
  /** The run is over. Called once. */
  stop(): void
}

export interface GuestSlot extends CellSlot {
  readonly session: GuestSession
  /** The end of the agent's stderr; empty if unavailable. */
  stderrTail(): string
  /** Watches a run that is about to start. Absent if nobody sees more than the agent. */
  watch?(spec: SandboxSpec): RunWatch
}

export interface GuestSlotParts extends Pick<
  GuestSlot,
  'session' | 'handle' | 'vendorRef' | 'stderrTail' | 'watch'
> {
  spec: SlotSpec
  /** Resolves when the session is over. */
  closed: Promise<unknown>
  /** False if the sandbox must not serve another program. Absent if only its channel can tell. */
  isSound?(): boolean
  /**
   * Called after the agent reported a clean cell with `waiting` own processes. False if this host sees more.
   * Absent if the host sees nothing.
   */
  holdsAtMost?(waiting: number): boolean
  /**
   * Destroys the sandbox, whose session was just closed; resolves when it is proven gone. Repeated after a
   * failure. `wasAtRest`: no program ran, so a healthy agent ends by itself.
   */
  destroy(wasAtRest: boolean): Promise<unknown>
}

export function createGuestSlot(parts: GuestSlotParts): GuestSlot {
  const { spec, session, handle, vendorRef, watch } = parts
  let gone: Promise<void> | null = null

  async function end(): Promise<void> {
    const wasAtRest = session.atRest
    session.close()
    await parts.destroy(wasAtRest)
  }

  return {
    spec,
    session,
    handle,
    ...(vendorRef === undefined ? {} : { vendorRef }),
    ...(watch === undefined ? {} : { watch }),
    stderrTail: () => parts.stderrTail(),
    get alive() {
      return !session.closed && parts.isSound?.() !== false
    },
    onClosed(listener) {
      void parts.closed.then(listener)
    },
    async clean(keep, signal) {
      const waiting = await session.clean(keep, signal)
      // A kept interpreter may have children, which belong to the session.
      if (keep !== 'interpreter' && keep !== 'processes' && parts.holdsAtMost?.(waiting) === false)
        throw new CofferdamError('sandbox_lost', 'processes are left in a cell that was said to be clean')
    },
    destroy() {
      gone ??= end().catch((error: unknown) => {
        // The next caller retries.
        gone = null
        throw error
      })
      return gone
    },
  }
}
