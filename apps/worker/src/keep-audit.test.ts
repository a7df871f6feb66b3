import { expect, it } from 'vitest'
import { keepRetention } from './keep-audit.ts'

/** The options of the first round's `dropExpired`, and how often the bucket was claimed. */
async function firstRound(isBucket: boolean, isMine: boolean) {
  const dropped = Promise.withResolvers<unknown>()
  let claims = 0
  await using _kept = keepRetention({
    retention: {
      isBucket,
      ensurePartitions: async () => undefined,
      dropExpired: async (_nowMs, options) => {
        dropped.resolve(options)
        return { days: [], blobs: 0 }
      },
    },
    claim: async () => {
      claims += 1
      return isMine
    },
    onError: dropped.reject,
  })
  return { options: await dropped.promise, claims }
}

it('every worker looks for expired blobs in its own folder', async () => {
  expect(await firstRound(false, false)).toEqual({ options: { keepBlobs: false }, claims: 0 })
})

it('only the worker that claimed it looks for expired blobs in the bucket', async () => {
  expect(await firstRound(true, false)).toEqual({ options: { keepBlobs: true }, claims: 1 })
  expect(await firstRound(true, true)).toEqual({ options: { keepBlobs: false }, claims: 1 })
})
