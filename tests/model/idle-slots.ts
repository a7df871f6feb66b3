/**
 * Checks that no slot stays free while an execution that fits waits, after a step that releases executions.
 * Each kind of worker then has as many released ones as its window allows, or may start nothing that waits.
 */
import { FLEET_DEFAULTS } from '@cofferdam/contract'
import { LANES, type Lane } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import type { Snapshot } from './snapshot.ts'
import { canServe } from './world.ts'

/** Steps after which every window is full, because their scripts release for all kinds. */
export const RELEASES: ReadonlySet<string> = new Set(['beat', 'join', 'limits'])

/** Returns one sentence for each kind that has a free slot for a waiting execution. */
export function idleSlots(shot: Snapshot): string[] {
  const kinds = [...shot.at(KEYS.kinds).keys()]
  return kinds.flatMap((kind) =>
    LANES.filter((lane) => hasSpace(shot, kinds, kind, lane)).flatMap((lane) => {
      const waiting = shot.ids.find((id) => mayStart(shot, kinds, kind, lane, id))
      return waiting === undefined
        ? []
        : [`${kind} has a free slot in ${lane}, and ${waiting} waits, which it can run`]
    }),
  )
}

/**
 * Whether fewer executions are released for a kind than it may have, both in this lane and in all lanes
 * together.
 */
function hasSpace(shot: Snapshot, kinds: readonly string[], kind: string, lane: Lane): boolean {
  const window = (what: string) =>
    Number(shot.at(KEYS.window).get(kinds.length === 1 ? what : `${kind}:${what}`) ?? 0)
  const out = (which: Lane) => Number(shot.at(KEYS.outs).get(`${which}:${kind}`) ?? 0)
  return out(lane) < window(lane) && out('interactive') + out('routine') < window('total')
}

/**
 * Whether an execution waits in a backlog that the kind serves, and nothing of its tenant holds it back. A
 * tenant without a concurrency limit of its own may have to leave slots to others. So its executions count
 * only while none of them is outstanding.
 */
function mayStart(shot: Snapshot, kinds: readonly string[], kind: string, lane: Lane, id: string): boolean {
  const x = shot.record(id)
  const tenant = x.get('t') ?? ''
  const inBacklog = shot.at(`${KEYS.backlog}${x.get('c') ?? lane}:${tenant}:${x.get('a')}`).has(id)
  if (x.get('s') !== 'queued' || x.get('l') !== lane || !inBacklog) return false
  const need = x.get('nd') ?? ''
  if (!canServe(kind, need) && kinds.some((other) => canServe(other, need))) return false
  const state = shot.at(KEYS.tenant + tenant)
  const own = (shot.at(KEYS.limits).get(tenant) ?? '').split('|')[1] ?? ''
  const out = Number(state.get('n') ?? 0)
  return !state.has('park') && (own === '' ? out === 0 : out < Number(own || FLEET_DEFAULTS.concurrency))
}
