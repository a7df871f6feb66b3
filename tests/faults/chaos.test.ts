/** Does the same as `npm run bench -- --only chaos`, with fewer executions. */
import { isLongTier } from '@cofferdam/embedded/needs'
import { expect, it } from 'vitest'
import { startFleet } from '../fleet.ts'
import { expectNothingHeld } from './accounts.ts'
import { runChaos } from './chaos.ts'

const EXECUTIONS = isLongTier() ? 2000 : 200

it(`accounts for ${EXECUTIONS} executions while workers are killed every second and caps move`, async () => {
  await using fleet = await startFleet({ durable: true })
  const account = await runChaos(fleet, {
    executions: EXECUTIONS,
    workers: 4,
    killEveryMs: 1000,
    patienceMs: 200_000,
  })
  console.info(JSON.stringify(account))
  expect(account).toMatchObject({
    accepted: EXECUTIONS,
    ended: EXECUTIONS,
    rows: account.attempts,
    contradictions: 0,
  })
  expect(account.chargedByCounter).toBe(account.chargedByRows)
  expect(Object.keys(account.endings)).toContain('ok')
  await expectNothingHeld(fleet)
}, 400_000)
