/** An undisturbed fleet comes to rest: every execution has ended, and nothing is left behind. */
import { LANES } from '@cofferdam/queue'
import { KEYS } from '@cofferdam/queue/testing'
import { snapshot } from './snapshot.ts'
import { tenantsOf } from './invariants.ts'
import { LOCK_MS, type World } from './world.ts'

/**
 * Upper limit of rounds, each one lock time long. All executions should end within three rounds after a
 * worker died, or more if queues are long.
 */
const ROUNDS = 40

/** Crashed workers stay dead, their locks expire, and the other workers continue. */
export async function comeToRest(world: World, check: (after: string) => Promise<void>): Promise<void> {
  // Let stalled workers finish first. If one died between its late admission and its begin, the charge would
  // remain (admit.ts).
  for (const held of world.held)
    while (held.isSleeper && held.phase !== 'over') await world.act(held, 'on', false, false)
  for (const worker of world.workers) if (worker.isAlive) worker.slots = 2
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const held of world.held) if (!held.worker.isAlive) await world.expire(held)
    const alive = world.workers.filter((worker) => worker.isAlive)
    for (const worker of alive) await world.beat(worker)
    for (const lane of LANES) await world.stalledCheck(lane)
    await world.sweep()
    for (let turn = 0; turn < 4; turn += 1) {
      for (const worker of alive)
        for (const lane of LANES) {
          await world.goOn(worker, lane)
          await world.recover(worker, lane)
          await world.takeAssigned(worker, lane, 'force')
        }
      for (const held of world.held)
        while (held.worker.isAlive && held.phase !== 'over') await world.act(held, 'on', false, false)
    }
    await check(`round ${round + 1} of peace`)
    await world.drainOutbox()
    const shot = await snapshot(world.transport.redis)
    if (round > 2 && shot.ids.every((id) => shot.record(id).get('s') === 'ended')) break
    // Two heartbeats within a lock time, as live workers send them. Otherwise the scripts would take the
    // workers for dead.
    for (let beat = 0; beat < 2; beat += 1) {
      await world.setClock(LOCK_MS / 2 + 500)
      for (const worker of alive) await world.beat(worker)
    }
  }
}

/** Describes everything that is not as it must be at rest. */
export async function unsettledAtRest(world: World): Promise<string[]> {
  const shot = await snapshot(world.transport.redis)
  const problems: string[] = []
  for (const id of world.ids) {
    const [result] = [...shot.at(KEYS.result + id).keys()]
    if (result === undefined) {
      problems.push(`${id} is ${shot.record(id).get('s')} and has no ending`)
      continue
    }
    const { attempt } = JSON.parse(result) as { attempt: number }
    if (JSON.stringify(world.rows.get(`${id} ${attempt}`)) !== result)
      problems.push(
        `${id}: shows ${result}, its row says ${JSON.stringify(world.rows.get(`${id} ${attempt}`))}`,
      )
    const rows = [...world.rows.values()].filter((row) => row.execution === id).length
    if (rows !== attempt) problems.push(`${id}: ${rows} rows of ${attempt} attempts`)
    const events = await world.transport.redis.xrange(KEYS.events + id, '-', '+')
    const ended = events.filter(([, fields]) => fields[1]?.includes('"ended"')).length
    if (ended !== 1) problems.push(`${id}: ${ended} events of its ending`)
  }
  for (const [key, count] of world.begun) if (count !== 1) problems.push(`${key} began ${count} times`)
  for (const tenant of tenantsOf(shot)) {
    if (tenant === '') continue
    for (const field of ['n', 'd', 'q:interactive', 'q:routine', 'h:interactive', 'h:routine'])
      if (Number(shot.at(KEYS.tenant + tenant).get(field) ?? 0) !== 0)
        problems.push(`${tenant}: ${field} is not zero`)
    const used = (await world.admission.usage(tenant)).tenant_daily.used
    const charged = world.chargedRows(tenant)
    if (used !== charged) problems.push(`${tenant}: ${used} charged by the counter, ${charged} by the rows`)
  }
  const empty = [
    KEYS.out,
    KEYS.waiting,
    KEYS.delayed,
    KEYS.ring,
    KEYS.backlog,
    KEYS.turns,
    KEYS.classes,
    KEYS.queued,
    KEYS.outs,
    KEYS.sessionQueue,
    KEYS.assigned,
    KEYS.parked,
    KEYS.live,
  ]
  for (const prefix of empty)
    for (const rest of shot.under(prefix))
      if (shot.at(prefix + rest).size > 0) problems.push(`${prefix}${rest} is not empty`)
  for (const lane of LANES)
    for (const job of shot.under(`${KEYS.bull}${lane}:e`))
      if (!/^vents$/.test(job)) problems.push(`BullMQ still has job e${job} of ${lane}`)
  return problems
}
