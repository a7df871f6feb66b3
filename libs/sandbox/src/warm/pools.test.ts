import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { newWorkerId } from '@cofferdam/contract'
import { createSlotPools, type SlotPools } from './pools.ts'
import { bytesOf, kindOf, type SlotKind } from './slot.ts'
import { never, OWNER, settled, spec, stage, type MemorySlot, type Stage } from './slot-double.ts'

const python: SlotKind = kindOf(spec(), {})
const bash: SlotKind = { ...python, language: 'bash' }

const pools: SlotPools<MemorySlot>[] = []
function open(on: Stage): SlotPools<MemorySlot> {
  const made = createSlotPools<MemorySlot>({
    backend: 'memory',
    start: on.start,
    deps: on.deps,
    onLeft: on.onLeft,
  })
  pools.push(made)
  return made
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close()
  vi.useRealTimers()
})

/** Long enough for a refill to begin and, on an instant stage, to finish. */
const refilled = () => vi.advanceTimersByTimeAsync(30)

/** A pool with one waiting slot. */
async function withOneIdle(on: Stage): Promise<{ pool: SlotPools<MemorySlot>; slot: MemorySlot }> {
  const pool = open(on)
  pool.keep(python, 1)
  await settled()
  const slot = on.starting[0]?.ready() ?? on.slots[0]!
  await settled()
  expect(pool.idle).toBe(1)
  return { pool, slot }
}

test('starts a slot for the first caller, and gives a warm one to the second', async () => {
  const on = stage({ instant: true })
  const pool = open(on)
  expect(await pool.take(python, OWNER, never)).toMatchObject({ warm: false })
  await refilled()
  expect(await pool.take(python, OWNER, never)).toMatchObject({ warm: true })
})

test('gives every slot to one caller only', async () => {
  const on = stage({ instant: true })
  const pool = open(on)
  const taken: MemorySlot[] = []
  for (let i = 0; i < 20; i += 1) {
    taken.push((await pool.take(python, OWNER, never)).slot)
    await refilled()
  }
  expect(new Set(taken).size).toBe(20)
})

test('separates kinds by language, preload and limits', async () => {
  const on = stage({ instant: true })
  const { pool } = await withOneIdle(on)
  const others: SlotKind[] = [
    bash,
    { ...python, preload: ['numpy'] },
    { ...python, limits: { ...python.limits, memory_mib: 255 } },
    { ...python, limits: { ...python.limits, cpus: 0.75 } },
    { ...python, limits: { ...python.limits, pids: 63 } },
    { ...python, limits: { ...python.limits, disk_mib: 63 } },
  ]
  for (const kind of others) expect(await pool.take(kind, OWNER, never)).toMatchObject({ warm: false })
  expect(await pool.take(python, OWNER, never)).toMatchObject({ warm: true })
})

test('starts a slot with its own label for an execution of another owner', async () => {
  const on = stage({ instant: true })
  const { pool } = await withOneIdle(on)
  const other = newWorkerId('0123456789ab')
  const { slot, warm } = await pool.take(python, other, never)
  expect([slot.spec.owner, warm]).toEqual([other, false])
  expect(pool.idle).toBe(1)
})

test('refills after a caller’s own start, not during it', async () => {
  const on = stage()
  const pool = open(on)
  const cold = pool.take(python, OWNER, never)
  await vi.advanceTimersByTimeAsync(60_000)
  expect(on.starting).toHaveLength(1)
  on.starting[0]?.ready()
  await cold
  await vi.advanceTimersByTimeAsync(1000)
  expect(on.starting.length).toBeGreaterThan(0)
  expect(await cold).toMatchObject({ warm: false })
})

test('refills during a caller’s start after several cold starts in a row', async () => {
  const on = stage()
  const pool = open(on)
  for (let n = 0; n < 4; n += 1) {
    const cold = pool.take(python, OWNER, never)
    await settled()
    on.starting[0]?.ready()
    await cold
  }
  const fifth = pool.take(python, OWNER, never)
  await refilled()
  expect(on.starting).toHaveLength(2)
  const [caller, refill] = on.starting
  caller?.ready()
  refill?.ready()
  expect(await fifth).toMatchObject({ warm: false })
  await settled()
  expect(await pool.take(python, OWNER, never)).toMatchObject({ warm: true })
})

test('gives the next warming slot to the longest waiter', async () => {
  const on = stage()
  const pool = open(on)
  pool.keep(python, 2)
  await settled()
  expect(on.starting).toHaveLength(2)
  const order: string[] = []
  const first = pool.take(python, OWNER, never).then(({ slot }) => order.push(`first ${slot.spec.slotId}`))
  const second = pool.take(python, OWNER, never).then(({ slot }) => order.push(`second ${slot.spec.slotId}`))
  await settled()
  const [a, b] = [...on.starting]
  // The younger start is ready first, but the longest waiter gets it.
  b!.ready()
  await settled()
  a!.ready()
  await Promise.all([first, second])
  expect(order).toEqual([`first ${b!.spec.slotId}`, `second ${a!.spec.slotId}`])
})

test('does not wait for a slot that another caller waits for', async () => {
  const on = stage()
  const pool = open(on)
  pool.keep(python, 1)
  await settled()
  const first = pool.take(python, OWNER, never)
  const second = pool.take(python, OWNER, never)
  await settled()
  // One was warming for the first caller; the second has its own start.
  expect(on.starting.length).toBeGreaterThanOrEqual(2)
  while (on.starting.length > 0) on.starting[0]?.ready()
  expect([(await first).warm, (await second).warm]).toEqual([true, false])
})

test('starts a slot for a waiter whose warming slot fails', async () => {
  const on = stage()
  const pool = open(on)
  pool.keep(python, 1)
  await settled()
  const taking = pool.take(python, OWNER, never)
  on.starting[0]!.fail(new Error('no'))
  await settled()
  expect(on.starting).toHaveLength(1)
  on.starting[0]!.ready()
  expect(await taking).toMatchObject({ warm: false })
})

test('starts a slot for a waiter whose warming slot dies at the hand-over', async () => {
  const on = stage()
  const pool = open(on)
  pool.keep(python, 1)
  await settled()
  const taking = pool.take(python, OWNER, never)
  const dead = on.starting[0]!.ready()
  dead.die()
  await settled()
  expect(dead.isDestroyed).toBe(true)
  on.starting[0]!.ready()
  expect(await taking).toMatchObject({ warm: false })
})

test('keeps the slot of a waiter that gives up in the pool', async () => {
  const on = stage()
  const pool = open(on)
  pool.keep(python, 1)
  await settled()
  const stop = new AbortController()
  const taking = pool.take(python, OWNER, stop.signal)
  const reason = new Error('enough')
  stop.abort(reason)
  await expect(taking).rejects.toBe(reason)
  on.starting[0]!.ready()
  await settled()
  expect(pool.idle).toBe(1)
})

test('never gives out a slot whose channel closed, and destroys it', async () => {
  const on = stage()
  const { pool, slot } = await withOneIdle(on)
  slot.die()
  await settled()
  expect([pool.idle, slot.isDestroyed]).toEqual([0, true])
  expect(on.events).toContainEqual({ type: 'dropped', backend: 'memory', why: 'died' })
  const taking = pool.take(python, OWNER, never)
  await settled()
  on.starting.at(-1)!.ready()
  expect((await taking).slot).not.toBe(slot)
})

test('destroys a closed slot whose listener was not called yet', async () => {
  const on = stage()
  const { pool, slot } = await withOneIdle(on)
  slot.alive = false
  const taking = pool.take(python, OWNER, never)
  await settled()
  expect([slot.isDestroyed, on.held()]).toEqual([true, 0])
  on.starting.at(-1)!.ready()
  expect(await taking).toMatchObject({ warm: false })
})

test('replaces a slot that waited too long', async () => {
  const on = stage({ instant: true })
  const { pool, slot } = await withOneIdle(on)
  await vi.advanceTimersByTimeAsync(595_000)
  expect(slot.isDestroyed).toBe(false)
  await vi.advanceTimersByTimeAsync(15_000)
  expect(slot.isDestroyed).toBe(true)
  expect(pool.idle).toBe(1)
  expect(on.events).toContainEqual({ type: 'dropped', backend: 'memory', why: 'age' })
})

test('gives up surplus slots down to the floor if demand falls', async () => {
  const on = stage({ instant: true })
  const pool = open(on)
  pool.keep(python, 8)
  await settled()
  expect(pool.idle).toBe(8)
  pool.keep(python, 2)
  await vi.advanceTimersByTimeAsync(5_000)
  expect(pool.idle).toBe(2)
  expect(on.events.filter((event) => event.type === 'dropped').map(({ why }) => why)).toEqual(
    Array(6).fill('surplus'),
  )
})

test('gives up an unused kind, but not one with a floor', async () => {
  const on = stage({ instant: true })
  const { pool } = await withOneIdle(on)
  await pool.take(bash, OWNER, never)
  await refilled()
  expect(pool.idle).toBeGreaterThan(1)
  await vi.advanceTimersByTimeAsync(310_000)
  expect(pool.idle).toBe(1)
  expect(
    on.slots.filter(({ isDestroyed }) => !isDestroyed).map(({ spec: { language } }) => language),
  ).toContain('python')
})

test('gives up the least recently used kind for a new one', async () => {
  const on = stage({ instant: true, config: { pools: { max_kinds: 2 } } })
  const pool = open(on)
  const kinds = [100, 200, 300].map((memory_mib) => ({ ...python, limits: { ...python.limits, memory_mib } }))
  for (const kind of kinds) {
    await pool.take(kind, OWNER, never)
    await vi.advanceTimersByTimeAsync(100)
  }
  const waiting = on.slots
    .filter(({ isDestroyed }) => !isDestroyed)
    .map(({ spec: { limits } }) => limits.memory_mib)
  const first = await pool.take(kinds[0]!, OWNER, never)
  expect(waiting.filter((mib) => mib === 200).length).toBeGreaterThan(0)
  expect(first.warm).toBe(false)
})

test('returns memory if an execution waits for it, and takes no more than available', async () => {
  const each = bytesOf(python)
  const on = stage({ instant: true, budget: 3 * each })
  const pool = open(on)
  pool.keep(python, 8)
  await settled()
  expect([pool.idle, on.held()]).toEqual([3, 3 * each])
  on.press(each + 1)
  await settled()
  expect([pool.idle, on.held()]).toEqual([1, each])
  expect(on.slots.filter(({ isDestroyed }) => isDestroyed)).toHaveLength(2)
  const { warm } = await pool.take(python, OWNER, never)
  expect([warm, on.held()]).toEqual([true, 0])
})

test('pauses after a failed start, then tries again', async () => {
  const on = stage()
  const pool = open(on)
  pool.keep(python, 1)
  await settled()
  on.starting[0]!.fail(new Error('no image'))
  await settled()
  expect([on.starting.length, on.held()]).toEqual([0, 0])
  await vi.advanceTimersByTimeAsync(4_000)
  expect(on.starting).toHaveLength(0)
  await vi.advanceTimersByTimeAsync(6_000)
  expect(on.starting).toHaveLength(1)
  expect(on.events.filter(({ type }) => type === 'warm_failed')).toHaveLength(1)
})

test('refills after the taken slot’s program has ended, or soon if it runs for long', async () => {
  const on = stage()
  const { pool } = await withOneIdle(on)
  await pool.take(python, OWNER, never)
  await settled()
  expect(on.starting).toHaveLength(0)
  await vi.advanceTimersByTimeAsync(25)
  expect(on.starting.length).toBeGreaterThan(0)
})

test('warms one slot at a time on two cores while programs run', async () => {
  const on = stage({ cores: 2 })
  const left = on.deps.refillGate.executing()
  const pool = open(on)
  pool.keep(python, 4)
  await settled()
  expect(on.starting).toHaveLength(1)
  left()
  await settled()
  expect(on.starting).toHaveLength(2)
})

test('starts a slot for an empty pool without an error', async () => {
  const on = stage({ instant: true, config: { pools: { enabled: false } } })
  const pool = open(on)
  for (let i = 0; i < 3; i += 1) expect(await pool.take(python, OWNER, never)).toMatchObject({ warm: false })
  expect(pool.idle).toBe(0)
})

test('destroys waiting slots on close, stops starts and returns all memory', async () => {
  const on = stage()
  const { pool, slot } = await withOneIdle(on)
  pool.keep(python, 3)
  await settled()
  expect(on.starting).toHaveLength(2)
  await pool.close()
  expect([slot.isDestroyed, on.starting.length, pool.idle, on.held()]).toEqual([true, 0, 0, 0])
  await vi.advanceTimersByTimeAsync(20_000)
  expect(on.starting).toHaveLength(0)
  expect(vi.getTimerCount()).toBe(0)
})

test('has a slot killed whose destroy failed, and holds its memory until it is gone', async () => {
  const on = stage()
  const { pool, slot } = await withOneIdle(on)
  const { slotId } = slot.spec
  slot.stuck = new Error('the daemon does not answer')
  on.press(1)
  await settled()
  expect(pool.idle).toBe(0)
  expect(on.left.map(({ ref }) => ref)).toEqual([{ backend: 'memory', id: slotId, handle: { slot: slotId } }])
  expect(on.held()).toBe(bytesOf(python))
  on.left[0]!.answer(true)
  await settled()
  expect(on.held()).toBe(0)
})

test('keeps the memory of a slot that nobody proves gone, and closes without waiting for it', async () => {
  const on = stage()
  const { pool, slot } = await withOneIdle(on)
  slot.stuck = new Error('the daemon does not answer')
  slot.die()
  await settled()
  await pool.close()
  expect(on.left).toHaveLength(1)
  on.left[0]!.answer(false)
  await settled()
  expect(on.held()).toBe(bytesOf(python))
})
