import { newSandboxId, type SandboxSpec } from '@cofferdam/contract'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { createCells, type Cells, type Turn } from './cells.ts'
import type { CellState, PausedCells } from './paused-cells.ts'
import { bytesOf, kindOf } from './slot.ts'
import { inSession, type MemorySlot, never, spec, stage, type Stage } from './slot-double.ts'

const OWN_BYTES = 1_000_000
const made: Cells<MemorySlot>[] = []
function open(on: Stage, paused: PausedCells<MemorySlot>) {
  const cells = createCells<MemorySlot>({ backend: 'memory', start: on.start, deps: on.deps, paused })
  made.push(cells)
  const take = (wanted: SandboxSpec): Promise<Turn<MemorySlot>> =>
    cells.take(wanted, kindOf(wanted, {}), never)
  return { cells, take }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(async () => {
  for (const cells of made.splice(0)) await cells.close()
  vi.useRealTimers()
})

/** Keeps states of sessions in memory, and starts a slot on the stage for each that is resumed. */
function shelf(on: Stage): PausedCells<MemorySlot> & { states: Map<string, CellState> } {
  const states = new Map<string, CellState>()
  return {
    states,
    has: async ({ key }) => states.has(key),
    async resume({ key }, owner, admit, signal) {
      const state = states.get(key)
      if (state === undefined) return null
      const kind = { ...kindOf(inSession(key), {}), cell: true }
      admit(kind, OWN_BYTES)
      const slot = await on.start({ ...kind, slotId: newSandboxId(), owner }, signal)
      states.delete(key)
      return { slot, state }
    },
    pause: async ({ key }, _slot, state) => void states.set(key, state),
    fork: async (_name, _slot, state, keys) =>
      keys.map((key) => {
        states.set(key, state)
        return { key, sessionId: state.id }
      }),
  }
}

test('continues a paused session: same ID, not fresh, and as old as it was', async () => {
  const on = stage({ instant: true, config: { cells: { max_age_ms: 60_000, idle_ms: 60_000 } } })
  const paused = shelf(on)
  const { cells, take } = open(on, paused)
  const first = await take(inSession('a'))
  await vi.advanceTimersByTimeAsync(10_000)
  await first.pause?.(never)
  await first.end(true)
  expect([first.slot.isDestroyed, cells.count, paused.states.get('a')?.ageMs]).toEqual([true, 0, 10_000])

  // Longer than a session may live: the time on disk does not count.
  await vi.advanceTimersByTimeAsync(3_600_000)
  const second = await take(inSession('a'))
  expect(second.session).toEqual({ id: first.session?.id, fresh: false })
  await second.end(false)
  expect(on.held()).toBe(bytesOf(second.slot.spec) + OWN_BYTES)
  await vi.advanceTimersByTimeAsync(45_000)
  expect(second.slot.isDestroyed).toBe(false)
  await vi.advanceTimersByTimeAsync(7000)
  expect(second.slot.isDestroyed).toBe(true)
})

test('leaves a session paused that its budget has no memory for', async () => {
  const on = stage({ instant: true, budget: 0 })
  const paused = shelf(on)
  const { take, cells } = open(on, paused)
  const first = await take(inSession('a'))
  await first.pause?.(never)
  await first.end(true)
  await expect(take(inSession('a'))).rejects.toMatchObject({
    code: 'backend_unavailable',
    details: { full: true },
  })
  expect([paused.states.size, cells.count]).toEqual([1, 0])
})

test('pauses and forks no sandbox without a session', async () => {
  const on = stage({ instant: true })
  const { take } = open(on, shelf(on))
  const turn = await take(spec({ reuse: 'tenant' }))
  expect([turn.pause, turn.fork]).toEqual([undefined, undefined])
})
