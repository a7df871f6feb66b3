import { expect, it } from 'vitest'
import { keepAuditLook } from './keep-audit.ts'

/** Runs one check. Returns what it kept, logged and reported as errors. */
async function looked(isMine: boolean, auditFaults: () => Promise<string[]>) {
  const seen = { kept: [] as number[], shown: [] as string[], errors: [] as unknown[] }
  const look = keepAuditLook({
    retention: { auditFaults },
    claim: async () => isMine,
    keep: async (count) => void seen.kept.push(count),
    onFaults: (faults) => void seen.shown.push(...faults),
    onError: (error) => void seen.errors.push(error),
  })
  await look[Symbol.asyncDispose]()
  return seen
}

it('keeps the number of faults in the audit tables, and logs the first ten', async () => {
  const faults = Array.from({ length: 12 }, (_, n) => `fault ${n}`)
  expect(await looked(true, async () => faults)).toEqual({
    kept: [12],
    shown: faults.slice(0, 10),
    errors: [],
  })
  expect(await looked(true, async () => [])).toEqual({ kept: [0], shown: [], errors: [] })
})

it('does not check when another worker has claimed the round', async () => {
  const never = () => Promise.reject(new Error('asked'))
  expect(await looked(false, never)).toEqual({ kept: [], shown: [], errors: [] })
})

it('keeps nothing when the check fails', async () => {
  const error = new Error('away')
  expect(await looked(true, () => Promise.reject(error))).toEqual({ kept: [], shown: [], errors: [error] })
})
