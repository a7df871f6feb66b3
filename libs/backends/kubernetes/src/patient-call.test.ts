import { expect, test } from 'vitest'
import type { KubeAnswer } from './kube-api.ts'
import { patiently } from './patient-call.ts'

const answer = (status: number, retryAfterMs: number | null = null): KubeAnswer => ({
  status,
  body: null,
  retryAfterMs,
})

/** Returns these answers in order, and records the times of the requests. */
function server(...answers: KubeAnswer[]) {
  const askedMs: number[] = []
  const call = async (): Promise<KubeAnswer> => {
    askedMs.push(performance.now())
    const next = answers.shift()
    if (next === undefined) throw new Error('asked once too often')
    return next
  }
  return { askedMs, call }
}

test('retries only if the server is busy, unavailable or reports a concurrent change', async () => {
  const quota = { ...answer(409), body: { reason: 'Conflict', details: { kind: 'resourcequotas' } } }
  const taken = { ...answer(409), body: { reason: 'AlreadyExists' } }
  const { call } = server(answer(503), answer(429), quota, taken)
  expect(await patiently(call, 60_000)).toBe(taken)
})

test('does not retry before the time of Retry-After', async () => {
  const { call, askedMs } = server(answer(429, 400), answer(201))
  expect(await patiently(call, 60_000)).toMatchObject({ status: 201 })
  // Timers may fire a millisecond early.
  expect((askedMs[1] ?? 0) - (askedMs[0] ?? 0)).toBeGreaterThan(395)
})

test('returns an answer at once if its Retry-After exceeds the time left', async () => {
  const { call, askedMs } = server(answer(429, 600_000), answer(201))
  expect(await patiently(call, 300_000)).toMatchObject({ status: 429 })
  expect(askedMs).toHaveLength(1)
})
