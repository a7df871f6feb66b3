/** A started sandbox whose guest agent waits: what pools and cells hold, whoever runs it. */
import { CofferdamError, type Exit, type SandboxRef, type SandboxSpec, type Usage } from '@cofferdam/contract'
import type { GuestSession } from './guest/index.ts'
import type { CellSlot, SlotSpec } from './warm/slot.ts'

/** What the worker's host sees of one run, in addition to what the agent reports. */
export interface RunWatch {
  /** Adds what was seen to the agent's account of the run. */
  addTo(exit: Exit): Exit
  /** What is measured from outside since the run's start; null where only the agent can tell. */
  usage(): Partial<Usage> | null
  /** True when the kernel killed for memory during the run. Asked when the agent is gone and cannot tell. */
  killedForMemory(): boolean | Promise<boolean>
  /** The run is over. Called once. */
  stop(): void
}

export interface GuestSlot extends CellSlot {
  readonly session: GuestSession
  /** Enough to find it again, without secrets: it goes into the ref. */
  readonly handle: SandboxRef['handle']
  /** What the vendor's own logs call it; no secret. Left out where there is no vendor. */
  readonly vendorRef?: string
  /** The agent's last words; empty where they cannot be had. */
  stderrTail(): string
  /** Begins to watch a run that is about to start. Left out where nobody sees more than the agent. */
  watch?(spec: SandboxSpec): RunWatch
}

export interface GuestSlotParts extends Pick<
  GuestSlot,
  'session' | 'handle' | 'vendorRef' | 'stderrTail' | 'watch'
> {
  spec: SlotSpec
  /** Resolves when the session is over. */
  closed: Promise<unknown>
  /**
   * Called after the agent said that a cell is clean but for `waiting` processes of its own. False when this
   * host sees more than those. Left out where the host sees nothing.
   */
  holdsAtMost?(waiting: number): boolean
  /**
   * Destroys the sandbox, whose session was just closed; resolves when it is proven gone. Called again if it
   * failed. `wasAtRest`: no program ran, so that an agent that is well ends by itself.
   */
  destroy(wasAtRest: boolean): Promise<unknown>
}

/** Makes the slot of a sandbox whose agent said that it is ready. */
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
      return !session.closed
    },
    onClosed(listener) {
      void parts.closed.then(listener)
    },
    async clean(keep, signal) {
      const waiting = await session.clean(keep, signal)
      // A kept interpreter may have children of its own, which are the session's.
      if (keep !== 'interpreter' && parts.holdsAtMost?.(waiting) === false)
        throw new CofferdamError('sandbox_lost', 'processes are left in a cell that was said to be clean')
    },
    destroy() {
      gone ??= end().catch((error: unknown) => {
        // The next caller tries again.
        gone = null
        throw error
      })
      return gone
    },
  }
}
