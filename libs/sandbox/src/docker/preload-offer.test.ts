import { CofferdamError } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { SILENT } from '../deps.ts'
import { createPreloadOffer } from './preload-offer.ts'

const sets = { data: ['numpy', 'pandas'], web: ['httpx'] }
const failure = (text: string): CofferdamError => new CofferdamError('sandbox_open_failed', text)

test('offers every set until a start shows that the image cannot import it', () => {
  const offer = createPreloadOffer(sets, SILENT)
  expect(offer.names()).toEqual(['data', 'web'])
  offer.failed(['httpx'], failure("did not start: ModuleNotFoundError: No module named 'httpx'"))
  expect(offer.names()).toEqual(['data'])
  expect(offer.refusals()).toEqual([
    "preload web is not offered: ModuleNotFoundError: No module named 'httpx'",
  ])
})

test('keeps offering a set after a start that failed for another reason', () => {
  const offer = createPreloadOffer(sets, SILENT)
  offer.failed(['httpx'], failure('the agent was not ready in time'))
  offer.failed([], failure('ModuleNotFoundError: no'))
  offer.failed(['httpx'], new Error('ModuleNotFoundError: no'))
  expect(offer.names()).toEqual(['data', 'web'])
})
