import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { createRecordBatcher } from './batch-records.ts'

const refused = (code: string): Error => Object.assign(new Error('no'), { code })

/** Collects written batches and lets the test answer them. */
function writer(answer: (items: readonly string[]) => Promise<Set<string>>) {
  const batches: string[][] = []
  const batcher = createRecordBatcher<string>((items) => {
    batches.push([...items])
    return answer(items)
  })
  return { batches, batcher }
}

const allNew = (items: readonly string[]): Promise<Set<string>> => Promise.resolve(new Set(items))
const names = (n: number): string[] => Array.from({ length: n }, (_, i) => `r${i}`)

describe('createRecordBatcher', () => {
  it('writes a lone record at once', async () => {
    const { batches, batcher } = writer(allNew)
    expect(await batcher.add('a', 'a')).toBe(true)
    expect(batches).toEqual([['a']])
  })

  it('batches records that arrive during a write, at most 100 at a time', async () => {
    const { batches, batcher } = writer(allNew)
    const answers = await Promise.all(names(350).map((name) => batcher.add(name, name)))
    expect(answers.every(Boolean)).toBe(true)
    expect(Math.max(...batches.map((batch) => batch.length))).toBe(100)
    expect(batches.length).toBeLessThan(10)
    expect(batches.flat()).toHaveLength(350)
  })

  it('waits under load for more records: until 50 are there, or for 5 ms', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
    onTestFinished(() => void vi.useRealTimers())
    const { batches, batcher } = writer(allNew)
    const sizes = (): number[] => batches.map((batch) => batch.length)
    // The first is written alone, the others after its answer. From then on the load is high.
    await Promise.all(names(6).map((name) => batcher.add(name, name)))
    const early = batcher.add('early', 'early')
    expect(sizes()).toEqual([1, 5])
    const late = names(49).map((name) => batcher.add(name, name))
    expect(sizes()).toEqual([1, 5, 50])
    await Promise.all([early, ...late])
    const lonely = batcher.add('lonely', 'lonely')
    vi.advanceTimersByTime(4)
    expect(sizes()).toEqual([1, 5, 50])
    vi.advanceTimersByTime(1)
    await lonely
    // A batch with one record ends the load.
    await batcher.add('next', 'next')
    expect(sizes()).toEqual([1, 5, 50, 1, 1])
  })

  it('writes a record that is twice in a batch once, and reports it as new only once', async () => {
    const { batches, batcher } = writer(allNew)
    const answers = await Promise.all(['x', 'a', 'a', 'b', 'a'].map((name) => batcher.add(name, name)))
    expect(answers).toEqual([true, true, false, true, false])
    expect(batches.flat().toSorted()).toEqual(['a', 'b', 'x'])
  })

  it('finds bad records by halving and rejects only these', async () => {
    const { batcher } = writer((items) =>
      items.includes('r7') || items.includes('r90') ? Promise.reject(refused('23514')) : allNew(items),
    )
    const outcomes = await Promise.allSettled(names(100).map((name) => batcher.add(name, name)))
    const bad = outcomes.flatMap((outcome, i) => (outcome.status === 'rejected' ? [i] : []))
    expect(bad).toEqual([7, 90])
    expect(outcomes[7]).toMatchObject({ reason: { code: 'internal' } })
  })

  it('rejects all waiting records when the store is away, after at most two calls', async () => {
    const { batches, batcher } = writer(() => Promise.reject(refused('ECONNREFUSED')))
    const outcomes = await Promise.allSettled(names(500).map((name) => batcher.add(name, name)))
    for (const outcome of outcomes) expect(outcome).toMatchObject({ reason: { code: 'store_unavailable' } })
    expect(batches.length).toBeLessThanOrEqual(2)
  })

  it('refuses records beyond its bound of 2,000 waiting ones', async () => {
    const gate = Promise.withResolvers<void>()
    const { batcher } = writer(async (items) => {
      await gate.promise
      return new Set(items)
    })
    const adding = Promise.allSettled(names(2500).map((name) => batcher.add(name, name)))
    gate.resolve()
    const outcomes = await adding
    const full = outcomes.filter((outcome) => outcome.status === 'rejected')
    // 2,000 wait, and a single record and a batch of 100 are in flight.
    expect(full).toHaveLength(2500 - 2000 - 101)
    expect(full[0]).toMatchObject({ reason: { code: 'store_unavailable' } })
    await batcher.idle()
  })
})
