/** The slot of a sandbox whose processes run on this host. */
import { createGuestSlot, type GuestSlot, type GuestSlotParts } from '../guest-slot.ts'
import { descendants } from './process-identity.ts'
import { watchRun, type HostSlotView } from './run-evidence.ts'

/** The agent itself, besides the waiting processes of a cell. */
const AGENT_PROCESSES = 1

export type HostSlotParts = HostSlotView &
  Pick<GuestSlotParts, 'spec' | 'session' | 'closed' | 'stderrTail' | 'destroy'>

/**
 * A cell is clean if its agent says so and this host sees no other process in its cgroup (or below the
 * agent), whatever a program did to the agent. Waiting processes are counted at each clean, because their
 * number depends on the last program's language. A hijacked agent may report too many, but at most the two
 * (WAITING_MAX) that it may keep anyway.
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
