/** The slot of a sandbox that is processes of this host. */
import { createGuestSlot, type GuestSlot, type GuestSlotParts } from '../guest-slot.ts'
import { descendants } from './process-identity.ts'
import { watchRun, type HostSlotView } from './run-evidence.ts'

/** The agent itself: what is in a cell besides the processes that wait for its next program. */
const AGENT_PROCESSES = 1

export type HostSlotParts = HostSlotView &
  Pick<GuestSlotParts, 'spec' | 'session' | 'closed' | 'stderrTail' | 'destroy'>

/**
 * Makes the slot. A cell is clean when the agent says so and this host sees no other process of it in the
 * cgroup (or below the agent), whatever a program did to the agent. What waits is counted at each clean,
 * because it changes with the language of the last program. An agent that a program has taken over can hide
 * no more processes in that number than it may keep anyway.
 */
export function createHostSlot(parts: HostSlotParts): GuestSlot {
  const { spec, session, closed, identity, cgroup } = parts
  const { pid, start, place } = identity
  return createGuestSlot({
    spec,
    session,
    closed,
    handle: { slot: spec.slotId, pid, start, place },
    stderrTail: () => parts.stderrTail(),
    watch: (run) => watchRun(parts, run),
    holdsAtMost(waiting) {
      const most = AGENT_PROCESSES + waiting
      return cgroup?.holdsAtMost(most) ?? descendants(pid).length + 1 <= most
    },
    destroy: (wasAtRest) => parts.destroy(wasAtRest),
  })
}
