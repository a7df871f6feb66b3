import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { DEFAULT_LIMITS, type SandboxSpec } from '@cofferdam/contract'
import { createCells, type Cells, type Turn } from './cells.ts'
import { bytesOf, kindOf } from './slot.ts'
import { inSession, type MemorySlot, never, settled, spec, stage, type Stage } from './slot-double.ts'

const made: Cells<MemorySlot>[] = []
function open(on: Stage): {
  cells: Cells<MemorySlot>
  take: (spec: SandboxSpec, signal?: AbortSignal) => Promise<Turn<MemorySlot>>
} {
  const cells = createCells<MemorySlot>({
    backend: 'memory',
    start: on.start,
    deps: on.deps,
    onLeft: on.onLeft,
  })
  made.push(cells)
  return {
    cells,
    take: (wanted, signal = never) => cells.take(wanted, kindOf(wanted, on.deps.config.preload), signal),
  }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(async () => {
  for (const cells of made.splice(0)) await cells.close()
  vi.useRealTimers()
})

test('keeps a session’s cell: the second turn is warm, has the same ID, and is not fresh', async () => {
  const { take } = open(stage({ instant: true }))
  const first = await take(inSession('a'))
  expect([first.warm, first.session?.fresh]).toEqual([false, true])
  await first.end(false)
  const second = await take(inSession('a'))
  expect(second.slot).toBe(first.slot)
  expect([second.warm, second.session]).toEqual([true, { id: first.session?.id, fresh: false }])
  expect(first.slot.cleaned).toEqual(['files'])
})

test('makes a session of scope none fresh each time, and keeps an interpreter', async () => {
  const { take } = open(stage({ instant: true }))
  for (const wanted of [inSession('n', 'none'), inSession('n', 'none')]) {
    const turn = await take(wanted)
    expect([turn.session?.fresh, turn.keepsInterpreter]).toEqual([true, false])
    await turn.end(false)
  }
  expect(await take(inSession('i', 'interpreter'))).toMatchObject({
    keepsInterpreter: true,
    keepsProcesses: false,
  })
})

test('leaves everything to the next turn of a session of scope processes, and destroys it when idle', async () => {
  const { take } = open(stage({ instant: true, config: { cells: { idle_ms: 5000 } } }))
  const first = await take(inSession('p', 'processes'))
  expect(first).toMatchObject({ keepsInterpreter: true, keepsProcesses: true })
  await first.end(false)
  const second = await take(inSession('p', 'processes'))
  expect(second.slot).toBe(first.slot)
  await second.end(false)
  expect(first.slot.cleaned).toEqual(['processes', 'processes'])
  await vi.advanceTimersByTimeAsync(7000)
  expect(first.slot.isDestroyed).toBe(true)
})

test('gives turns of a session in order of arrival, even after a lost cell', async () => {
  const { take } = open(stage({ instant: true }))
  const order: number[] = []
  const holder = await take(inSession('a'))
  const later = [1, 2, 3, 4].map(async (n) => {
    const turn = await take(inSession('a'))
    order.push(n)
    await turn.end(n === 2)
    return turn
  })
  await settled()
  expect(order).toEqual([])
  await holder.end(true)
  const turns = await Promise.all(later)
  expect(order).toEqual([1, 2, 3, 4])
  expect(turns.map(({ session }) => session?.fresh)).toEqual([true, false, true, false])
  expect(new Set(turns.map(({ slot }) => slot)).size).toBe(2)
})

test('never lets a later caller overtake a waiter between two turns', async () => {
  const { take } = open(stage({ instant: true }))
  const order: string[] = []
  const holder = await take(inSession('a'))
  const waiting = take(inSession('a')).then(async (turn) => {
    order.push('waiter')
    await turn.end(false)
  })
  await settled()
  const ending = holder.end(true)
  const newcomer = take(inSession('a')).then(async (turn) => {
    order.push('newcomer')
    await turn.end(false)
  })
  await Promise.all([ending, waiting, newcomer])
  expect(order).toEqual(['waiter', 'newcomer'])
})

test('keeps the next waiter’s turn if one gives up', async () => {
  const { take } = open(stage({ instant: true }))
  const holder = await take(inSession('a'))
  const stop = new AbortController()
  const gaveUp = take(inSession('a'), stop.signal)
  const next = take(inSession('a'))
  await settled()
  stop.abort(new Error('enough'))
  await expect(gaveUp).rejects.toThrow('enough')
  await holder.end(false)
  expect((await next).slot).toBe(holder.slot)
})

test('gives the turn to the next waiter after a failed start', async () => {
  const on = stage()
  const { take } = open(on)
  const first = take(inSession('a'))
  const second = take(inSession('a'))
  await settled()
  expect(on.starting).toHaveLength(1)
  on.starting[0]!.fail(new Error('no'))
  await expect(first).rejects.toThrow('no')
  await settled()
  on.starting[0]!.ready()
  expect((await second).session?.fresh).toBe(true)
})

test('never shares a cell between tenants, sessions, or tenant reuse of other limits', async () => {
  const { take } = open(stage({ instant: true }))
  const wanted = [
    inSession('a'),
    inSession('b'),
    inSession('a', 'files', { tenantId: 'other' }),
    spec({ reuse: 'tenant' }),
    spec({ reuse: 'tenant', tenantId: 'other' }),
    spec({ reuse: 'tenant', limits: { ...DEFAULT_LIMITS, memory_mib: 512 } }),
    // Keys that would be equal if the parts were only joined.
    inSession('a","session","b'),
  ]
  const slots = new Set<MemorySlot>()
  for (const one of wanted) {
    const turn = await take(one)
    slots.add(turn.slot)
    await turn.end(false)
  }
  expect(slots.size).toBe(wanted.length)
})

test('gives a tenant its maximum of cells, which keep nothing', async () => {
  const { cells, take } = open(stage({ instant: true, config: { cells: { max_per_tenant: 2 } } }))
  const tenant = spec({ reuse: 'tenant' })
  const [a, b] = [await take(tenant), await take(tenant)]
  const third = take(tenant)
  await settled()
  expect(cells.count).toBe(2)
  await b.end(false)
  expect((await third).slot).toBe(b.slot)
  expect([a.session, b.slot.cleaned]).toEqual([null, ['none']])
})

test('destroys a cell that cannot be proven clean; the next turn is fresh with a new ID', async () => {
  const on = stage({ instant: true })
  const { take } = open(on)
  const first = await take(inSession('a'))
  first.slot.unclean = new Error('a process is left')
  await first.end(false)
  expect(first.slot.isDestroyed).toBe(true)
  const second = await take(inSession('a'))
  expect(second.session?.fresh).toBe(true)
  expect(second.session?.id).not.toBe(first.session?.id)
  expect(on.events).toContainEqual({ type: 'dropped', backend: 'memory', why: 'unclean' })
})

test('destroys the cell of a lost turn without cleaning, and ignores a second end', async () => {
  const { cells, take } = open(stage({ instant: true }))
  const turn = await take(inSession('a'))
  await Promise.all([turn.end(true), turn.end(false)])
  expect([turn.slot.isDestroyed, turn.slot.cleaned, cells.count]).toEqual([true, [], 0])
})

test('refuses other limits or another scope for an open session, and leaves it unchanged', async () => {
  const { take } = open(stage({ instant: true }))
  const first = await take(inSession('a'))
  await first.end(false)
  const other = inSession('a', 'files', { limits: { ...DEFAULT_LIMITS, memory_mib: 512 } })
  await expect(take(other)).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining(`memory_mib ${DEFAULT_LIMITS.memory_mib}`),
  })
  await expect(take(inSession('a', 'interpreter'))).rejects.toMatchObject({ code: 'conflict' })
  const again = await take(inSession('a'))
  expect([again.slot, again.session?.fresh]).toEqual([first.slot, false])
})

test('ends a session after its own idle time, or the configured one', async () => {
  const on = stage({ instant: true })
  const { cells, take } = open(on)
  const short = await take(spec({ reuse: 'session', session: { key: 's', scope: 'files', idleMs: 10_000 } }))
  const usual = await take(inSession('u'))
  await Promise.all([short.end(false), usual.end(false)])
  await vi.advanceTimersByTimeAsync(12_000)
  expect([short.slot.isDestroyed, usual.slot.isDestroyed]).toEqual([true, false])
  await vi.advanceTimersByTimeAsync(300_000)
  expect([usual.slot.isDestroyed, cells.count, on.held()]).toEqual([true, 0, 0])
})

test('ends an idle cell at its maximum age, however often it was used', async () => {
  const on = stage({ instant: true, config: { cells: { max_age_ms: 60_000 } } })
  const { take } = open(on)
  const first = await take(inSession('a'))
  for (let turn = first, at = 0; at < 4; at += 1) {
    await vi.advanceTimersByTimeAsync(14_000)
    await turn.end(false)
    turn = await take(inSession('a'))
    expect(turn.slot).toBe(first.slot)
    if (at === 3) await turn.end(false)
  }
  await vi.advanceTimersByTimeAsync(6_000)
  expect(first.slot.isDestroyed).toBe(true)
  expect(on.events).toContainEqual({ type: 'dropped', backend: 'memory', why: 'age' })
})

test('replaces a cell that keeps nothing after its maximum of runs', async () => {
  const on = stage({ instant: true, config: { cells: { max_runs: 3 } } })
  const { take } = open(on)
  const slots: MemorySlot[] = []
  for (let n = 0; n < 4; n += 1) {
    const turn = await take(spec({ reuse: 'tenant' }))
    slots.push(turn.slot)
    await turn.end(false)
  }
  expect(slots.map((slot) => slot === slots[0])).toEqual([true, true, true, false])
  expect(slots[0]?.isDestroyed).toBe(true)
})

test('gives up the longest idle cell that keeps nothing for a new one, but no busy cell', async () => {
  const { cells, take } = open(stage({ instant: true, config: { cells: { max: 2 } } }))
  const session = await take(inSession('a'))
  await session.end(false)
  await vi.advanceTimersByTimeAsync(10)
  const tenant = await take(spec({ reuse: 'tenant' }))
  await tenant.end(false)
  const third = await take(inSession('b'))
  expect([session.slot.isDestroyed, tenant.slot.isDestroyed, cells.count]).toEqual([false, true, 2])
  const again = await take(inSession('a'))
  await expect(take(inSession('c'))).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  expect([third.slot.isDestroyed, again.slot.isDestroyed, cells.count]).toEqual([false, false, 2])
})

test('removes an idle cell at once if its channel closes', async () => {
  const on = stage({ instant: true })
  const { cells, take } = open(on)
  const turn = await take(inSession('a'))
  await turn.end(false)
  turn.slot.die()
  await settled()
  expect([turn.slot.isDestroyed, cells.count, on.held()]).toEqual([true, 0, 0])
  expect((await take(inSession('a'))).session?.fresh).toBe(true)
})

test('returns memory if an execution waits for it, and keeps no idle cell without memory', async () => {
  const each = bytesOf(kindOf(inSession('a'), {}))
  const on = stage({ instant: true, budget: each })
  const { cells, take } = open(on)
  const [a, b] = [await take(inSession('a')), await take(inSession('b'))]
  expect(on.held()).toBe(0)
  await a.end(false)
  await b.end(false)
  expect([a.slot.isDestroyed, b.slot.isDestroyed, on.held()]).toEqual([false, true, each])
  on.press(1)
  await settled()
  expect([a.slot.isDestroyed, cells.count, on.held()]).toEqual([true, 0, 0])
})

test('destroys all cells on close, opens no more and leaves no timer', async () => {
  const on = stage()
  const { cells, take } = open(on)
  const idling = take(inSession('a'))
  await settled()
  on.starting[0]!.ready()
  await (await idling).end(false)
  const working = take(inSession('b'))
  await settled()
  on.starting[0]!.ready()
  const busy = await working
  const waiting = take(inSession('b'))
  const opening = take(inSession('c'))
  const refused = Promise.all(
    [waiting, opening].map((one) => expect(one).rejects.toMatchObject({ code: 'shutting_down' })),
  )
  await settled()
  const closing = cells.close()
  on.starting[0]!.ready()
  await closing
  await refused
  expect(on.slots.every(({ isDestroyed }) => isDestroyed)).toBe(true)
  await busy.end(false)
  await expect(take(inSession('a'))).rejects.toMatchObject({ code: 'shutting_down' })
  expect([cells.count, on.held(), vi.getTimerCount()]).toEqual([0, 0, 0])
})

const files = (key: string): SandboxSpec => ({
  ...inSession(key),
  program: { type: 'files', op: 'list' },
  limits: { ...inSession(key).limits, memory_mib: 16 },
})

test('lets file operations join a session with any limits, and create none', async () => {
  const on = stage({ instant: true })
  const { cells, take } = open(on)
  await expect(take(files('a'))).rejects.toMatchObject({ code: 'session_not_found' })
  expect(cells.count).toBe(0)
  const first = await take(inSession('a'))
  const waiting = take(files('a'))
  await first.end(false)
  const turn = await waiting
  expect([turn.slot === first.slot, turn.session?.fresh]).toEqual([true, false])
  const behind = take(files('a'))
  await turn.end(true)
  await expect(behind).rejects.toMatchObject({ code: 'session_not_found' })
  expect(cells.count).toBe(0)
})

test('reports a session when its turn begins and ends, and when it is gone', async () => {
  const on = stage({ instant: true })
  const told: string[] = []
  on.deps.onSession = ({ tenantId, backend, key }, state) =>
    void told.push(
      `${tenantId}/${backend}/${key} ${state === null ? 'gone' : state.isBusy ? 'busy' : 'idle'}`,
    )
  const { take } = open(on)
  const turn = await take(inSession('a'))
  await turn.end(false)
  await (await take(inSession('a'))).end(true)
  const name = `${inSession('a').tenantId}/memory/a`
  expect(told).toEqual([`${name} busy`, `${name} idle`, `${name} busy`, `${name} gone`])
})

test('has an idle cell killed whose destroy failed, and holds its memory until it is gone', async () => {
  const on = stage({ instant: true })
  const { cells, take } = open(on)
  const turn = await take(inSession('a'))
  await turn.end(false)
  const { slot } = turn
  const bytes = bytesOf(slot.spec)
  slot.stuck = new Error('the daemon does not answer')
  on.press(1)
  await settled()
  const { slotId } = slot.spec
  expect(on.left.map(({ ref }) => ref)).toEqual([{ backend: 'memory', id: slotId, handle: { slot: slotId } }])
  expect([cells.count, on.held()]).toEqual([0, bytes])
  // The session begins again in another sandbox.
  expect((await take(inSession('a'))).slot).not.toBe(slot)
  on.left[0]!.answer(true)
  await settled()
  expect(on.held()).toBe(0)
})

test('leaves a cell to the caller whose turn it was, when its destroy fails', async () => {
  const on = stage({ instant: true })
  const { take } = open(on)
  const turn = await take(inSession('a'))
  turn.slot.stuck = new Error('the daemon does not answer')
  await expect(turn.end(true)).rejects.toThrow('does not answer')
  expect([on.left, on.held()]).toEqual([[], 0])
})

test('has a cell killed that its caller cannot use and that has no memory to wait', async () => {
  const first = inSession('a')
  const bytes = bytesOf(kindOf(first, {}))
  const on = stage({ instant: true, budget: bytes })
  const { take } = open(on)
  const turn = await take(first)
  await turn.end(false)
  turn.slot.stuck = new Error('the daemon does not answer')
  const refused = take(inSession('a', 'files', { limits: { ...DEFAULT_LIMITS, memory_mib: 99 } }))
  // The cell does not wait any more, so another execution can acquire its memory.
  expect(on.deps.memory.tryAcquire(bytes)).not.toBeNull()
  await expect(refused).rejects.toMatchObject({ code: 'conflict' })
  expect(on.left.map(({ ref }) => ref.id)).toEqual([turn.slot.spec.slotId])
})
