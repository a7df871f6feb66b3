/** What must hold after every step. Violations are returned as sentences. */
import { FLEET_DEFAULTS } from '@cofferdam/contract'
import { LANES, type Lane } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import { countOf, placesOf, type Snapshot } from './snapshot.ts'
import { canServe } from './world.ts'

/** What the checks remember from step to step. */
export interface Memory {
  endings: Map<string, string>
  fences: Map<string, number>
  clocks: Map<string, number>
}

export const newMemory = (): Memory => ({ endings: new Map(), fences: new Map(), clocks: new Map() })

/** Returns an empty list when all invariants hold. */
export function brokenInvariants(shot: Snapshot, memory: Memory): string[] {
  return [
    ...shot.ids.flatMap((id) => misplaced(shot, id)),
    ...shot.ids.flatMap((id) => historyChanged(shot, id, memory)),
    ...tenantsOf(shot).flatMap((tenant) => [...miscounted(shot, tenant), ...ringWrong(shot, tenant)]),
    ...sessionsWrong(shot),
    ...clockWentBack(shot, memory),
    ...outsMiscounted(shot),
  ]
}

export const tenantsOf = (shot: Snapshot): string[] => [
  ...new Set([...shot.ids.map((id) => shot.record(id).get('t') ?? ''), ...shot.under(KEYS.tenant)]),
]

const number = (text: string | undefined): number => Number(text ?? '0')

/** Every execution is exactly where its state says, so none is missing from its queue or waits in two. */
function misplaced(shot: Snapshot, id: string): string[] {
  const x = shot.record(id)
  const [state, lane, tenant, agent] = [x.get('s'), x.get('l') ?? '', x.get('t') ?? '', x.get('a') ?? '']
  const places = placesOf(shot, id).join(', ')
  const waits = (where: string): string => [where, `waiting ${lane}`].toSorted().join(', ')
  const allowed: Record<string, string[]> = {
    delayed: [`delayed ${lane}`],
    queued: [
      waits(`backlog ${x.get('c') ?? lane}:${tenant}:${agent}`),
      waits(`behind ${x.get('sk')}`),
      waits(`hand ${lane}:${x.get('hd')}`),
    ],
    released: [`out ${lane}`],
    running: [`out ${lane}`],
    ended: [''],
  }
  const problems: string[] = []
  if (!(allowed[state ?? ''] ?? []).includes(places))
    problems.push(`${id} is ${state} and stands in [${places}]`)
  const isLive = shot.at(KEYS.live + tenant).has(id)
  if (isLive !== (state !== 'ended'))
    problems.push(`${id} is ${state} and ${isLive ? '' : 'not '}listed as live`)
  if ((state === 'ended') !== shot.at(KEYS.result + id).size > 0)
    problems.push(`${id} is ${state} and has ${state === 'ended' ? 'no' : 'a'} result`)
  return problems
}

/** An ending never changes, and a fence only rises. */
function historyChanged(shot: Snapshot, id: string, memory: Memory): string[] {
  const problems: string[] = []
  const [result] = [...shot.at(KEYS.result + id).keys()]
  const before = memory.endings.get(id)
  if (before !== undefined && before !== result) problems.push(`${id} ended ${before}, now ${result}`)
  if (result !== undefined) memory.endings.set(id, result)
  const fence = number(shot.record(id).get('f'))
  if (fence < (memory.fences.get(id) ?? 0)) problems.push(`${id}: its fence went back to ${fence}`)
  memory.fences.set(id, fence)
  return problems
}

/** The counters of a tenant equal a count of its executions. */
function miscounted(shot: Snapshot, tenant: string): string[] {
  const state = shot.at(KEYS.tenant + tenant)
  const expected: [field: string, count: number][] = [
    ['n', countOf(shot, KEYS.out, LANES, tenant)],
    ['d', countOf(shot, KEYS.delayed, LANES, tenant)],
    ...LANES.flatMap((lane) => outByKind(shot, lane, tenant)),
    ...LANES.map((lane): [string, number] => [`q:${lane}`, countOf(shot, KEYS.waiting, [lane], tenant)]),
    ...LANES.map((lane): [string, number] => [
      `h:${lane}`,
      shot
        .under(`${KEYS.assigned}${lane}:`)
        .flatMap((worker) => [...shot.at(`${KEYS.assigned}${lane}:${worker}`).keys()])
        .filter((id) => shot.record(id).get('t') === tenant).length,
    ]),
  ]
  return expected
    .filter(([field, count]) => number(state.get(field)) !== count)
    .map(([field, count]) => `${tenant}: ${field} says ${state.get(field)}, counted ${count}`)
}

/** A tenant's outstanding executions in a lane by kind, also for kinds where it has none any more. */
function outByKind(shot: Snapshot, lane: Lane, tenant: string): [field: string, count: number][] {
  const ids = [...shot.at(KEYS.out + lane).keys()].filter((id) => shot.record(id).get('t') === tenant)
  const kinds = ['', ...shot.at(KEYS.kinds).keys(), ...ids.map((id) => shot.record(id).get('k') ?? '')]
  return [...new Set(kinds)].map((kind) => [
    `n:${lane}:${kind}`,
    ids.filter((id) => shot.record(id).get('k') === kind).length,
  ])
}

/**
 * A kind of worker may serve a tenant exactly when the tenant has a backlog that the kind can serve, has a
 * free slot and is not parked. Every kind may take executions that no known kind can serve.
 */
function ringWrong(shot: Snapshot, tenant: string): string[] {
  const state = shot.at(KEYS.tenant + tenant)
  const concurrency = Number(
    (shot.at(KEYS.limits).get(tenant) ?? '').split('|')[1] || FLEET_DEFAULTS.concurrency,
  )
  const kinds = [...shot.at(KEYS.kinds).keys()]
  return LANES.flatMap((lane) => {
    const classes = [lane, ...shot.at(`${KEYS.classes}${lane}:${tenant}`).keys()]
    const problems: string[] = []
    const needs: string[] = []
    for (const name of new Set([...classes, ...classesOf(shot, lane, tenant)])) {
      const agents = shot.under(`${KEYS.backlog}${name}:${tenant}:`).toSorted()
      const turns = [...shot.at(`${KEYS.turns}${name}:${tenant}`).keys()].toSorted()
      if (agents.join() !== turns.join())
        problems.push(`${tenant} ${name}: turns of [${turns.join()}], backlogs of [${agents.join()}]`)
      if (agents.length > 0 && !classes.includes(name))
        problems.push(`${tenant}: nobody knows of its class ${name}`)
      if (agents.length === 0 && name !== lane && classes.includes(name))
        problems.push(`${tenant}: class ${name} is empty`)
      if (agents.length > 0) needs.push(name.slice(lane.length + 1))
    }
    if (needs.length > 0 !== shot.at(KEYS.queued + lane).has(tenant))
      problems.push(
        `${tenant} ${lane}: has ${needs.length} classes, and is ${needs.length > 0 ? 'not ' : ''}listed`,
      )
    for (const kind of kinds) {
      const isServed = needs.some(
        (need) => canServe(kind, need) || !kinds.some((other) => canServe(other, need)),
      )
      const due = isServed && number(state.get('n')) < concurrency && !state.has('park')
      const inRing = shot.at(`${KEYS.ring}${lane}:${kind}`).has(tenant)
      // A tenant that is wrongly in the ring only costs the next pick one look. A tenant that is missing
      // would wait for ever.
      if (due && !inRing)
        problems.push(`${tenant} ${lane}: has a backlog for ${kind} and a free slot, but no turn`)
      if (inRing && state.has('park')) problems.push(`${tenant} ${lane}: parked, and in the ring of ${kind}`)
    }
    if (state.has('park') !== shot.at(KEYS.parked).has(tenant))
      problems.push(`${tenant}: parked by one key and not by the other`)
    return problems
  })
}

/** Every class of a lane in which a tenant has a backlog, according to the existing keys. */
const classesOf = (shot: Snapshot, lane: string, tenant: string): string[] =>
  shot
    .under(KEYS.backlog)
    .map((rest) => rest.split(':'))
    .filter(([name = '', owner]) => owner === tenant && (name === lane || name.startsWith(`${lane}/`)))
    .map(([name = '']) => name)

/**
 * The counter of a kind equals the number of outstanding executions that this kind has or that were released
 * for it.
 */
function outsMiscounted(shot: Snapshot): string[] {
  const counted = new Map<string, number>()
  for (const lane of LANES)
    for (const id of shot.at(KEYS.out + lane).keys()) {
      const at = `${lane}:${shot.record(id).get('k')}`
      counted.set(at, (counted.get(at) ?? 0) + 1)
    }
  const said = shot.at(KEYS.outs)
  return [...new Set([...counted.keys(), ...said.keys()])]
    .filter((at) => number(said.get(at)) !== (counted.get(at) ?? 0))
    .map((at) => `${said.get(at)} are out at ${at}, counted ${counted.get(at)}`)
}

/** At most one execution of a session is outside the session's queue. It is the front of the session. */
function sessionsWrong(shot: Snapshot): string[] {
  const fronts = new Map<string, string[]>()
  for (const id of shot.ids) {
    const [sk, state] = [shot.record(id).get('sk'), shot.record(id).get('s')]
    if (sk === undefined || state === 'ended') continue
    // A delayed execution does not belong to its session before its first turn. If it is put off later
    // (`po`), it stays the front.
    if (state === 'delayed' && !shot.record(id).has('po')) continue
    if (!shot.at(KEYS.sessionQueue + sk).has(id)) fronts.set(sk, [...(fronts.get(sk) ?? []), id])
  }
  const named = shot
    .under(KEYS.sessionQueue)
    .filter((sk) => (fronts.get(sk) ?? []).length === 0)
    .map((sk) => `session ${sk}: executions wait behind nobody`)
  return [...fronts]
    .flatMap(([sk, ids]) => {
      const front = shot.at(KEYS.session + sk).get('f')
      if (ids.length > 1) return [`session ${sk}: ${ids.join(' and ')} are out at once`]
      return ids[0] === front ? [] : [`session ${sk}: front is ${front}, out is ${ids[0]}`]
    })
    .concat(named)
}

/** The virtual clock of a kind never goes back while the kind is known. */
function clockWentBack(shot: Snapshot, memory: Memory): string[] {
  const clocks = new Map(
    [...shot.at(KEYS.clock)]
      .filter(([field]) => field.startsWith('v:'))
      .map(([field, at]) => [field, number(at)]),
  )
  const before = memory.clocks
  memory.clocks = clocks
  return [...clocks]
    .filter(([field, at]) => at < (before.get(field) ?? 0))
    .map(([field, at]) => `virtual time ${field} went back from ${before.get(field)} to ${at}`)
}
