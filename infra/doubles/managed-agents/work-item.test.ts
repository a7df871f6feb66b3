/** The lease of a work item under any order of calls. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { WireError } from './wire-errors.ts'
import { WorkItem, type WorkState } from './work-item.ts'

const NEXT: Record<WorkState, readonly WorkState[]> = {
  queued: ['starting', 'stopping', 'stopped'],
  starting: ['active', 'queued', 'stopping', 'stopped'],
  active: ['queued', 'stopping', 'stopped'],
  stopping: ['stopped'],
  stopped: [],
}

const call = fc.oneof(
  fc.constant({ kind: 'ack' } as const),
  fc.record({ kind: fc.constant('beat' as const), holder: fc.constantFrom(0, 1, 2) }),
  fc.record({ kind: fc.constant('stop' as const), force: fc.boolean() }),
  fc.constant({ kind: 'expire' } as const),
)

it('whatever is called in whatever order, one holder has the lease and states follow the diagram', () => {
  fc.assert(
    fc.property(fc.array(call, { maxLength: 40 }), (calls) => {
      const item = new WorkItem('env', { type: 'session', id: 'sesn' }, () => undefined)
      /** The heartbeat value that each holder sends next as the expected one. */
      const last = ['NO_HEARTBEAT', 'NO_HEARTBEAT', 'NO_HEARTBEAT']
      for (const one of calls) {
        const stored = item.latest_heartbeat_at
        const wasEnding = item.state === 'stopping' || item.state === 'stopped'
        try {
          if (one.kind === 'ack') item.ack(300)
          else if (one.kind === 'stop') item.stop(one.force)
          else if (one.kind === 'expire') item.expire()
          else {
            const sent = last[one.holder] ?? ''
            const beat = item.heartbeat(sent, undefined, 300)
            expect(beat.lease_extended).toBe(!wasEnding)
            if (!wasEnding) expect(sent).toBe(stored ?? 'NO_HEARTBEAT')
            last[one.holder] = beat.last_heartbeat === '' ? 'NO_HEARTBEAT' : beat.last_heartbeat
          }
        } catch (error) {
          if (!(error instanceof WireError)) throw error
          expect([409, 412]).toContain(error.status)
          // A holder whose heartbeat gets 412 gives up, and starts anew with the next delivery.
          if (one.kind === 'beat' && error.status === 412) last[one.holder] = 'NO_HEARTBEAT'
        }
        if (item.state === 'queued') expect(item.latest_heartbeat_at).toBeNull()
        if (item.state === 'active') expect(item.latest_heartbeat_at).not.toBeNull()
      }
      item.close()
      const states = item.history.map(({ state }) => state)
      for (const [n, state] of states.slice(1).entries())
        expect(NEXT[states[n] ?? 'stopped']).toContain(state)
      const times = item.history.map(({ at }) => at)
      expect(times).toEqual(times.toSorted())
    }),
  )
})
