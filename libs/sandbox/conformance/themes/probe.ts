/** Probe reports quickly whether the backend can run here, and leaves nothing. */
import { isAtLeast } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import type { Harness } from '../harness.ts'

export function probe({ backend, name, capabilities }: Harness): void {
  test('reports that it can run here, and which guarantees hold', async () => {
    const answer = await backend.probe(new AbortController().signal)
    expect(answer).toMatchObject({ ok: true })
    if (answer.ok) for (const feature of answer.features) expect(feature).toMatch(/\S/)
  })

  test('answers again within a second', async () => {
    const took: number[] = []
    // The quickest answer counts, because a late one may show only a busy machine.
    for (let turn = 0; turn < 10 && !(Math.min(...took) < 1000); turn += 1) {
      const startedAt = performance.now()
      await backend.probe(new AbortController().signal)
      took.push(performance.now() - startedAt)
    }
    expect(Math.min(...took)).toBeLessThan(1000)
  })

  test('stops if its signal aborts', async () => {
    const reason = new Error('enough')
    await expect(backend.probe(AbortSignal.abort(reason))).rejects.toBe(reason)
  })

  test('describes itself with a name, an isolation and consistent capabilities', () => {
    expect(backend.name).toBe(name)
    expect(isAtLeast(backend.isolation, 'none')).toBe(true)
    expect(capabilities.network.length).toBeGreaterThan(0)
    expect(capabilities.measures).toContain('wall_ms')
    if (capabilities.value) expect(capabilities.programs).toContain('script')
    expect(capabilities.languages.length > 0).toBe(capabilities.programs.includes('script'))
  })
}
