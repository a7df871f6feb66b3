/** The bounded size of `npm run bench -- --only chaos`. */
import { expect, it } from 'vitest'
import { startFleet } from '../fleet.ts'
import { expectNothingHeld } from './accounts.ts'
import { runChaos } from './chaos.ts'

it('accounts for 2,000 executions over 4 workers of which one is killed every second, with caps moved meanwhile', async () => {
  await using fleet = await startFleet({ durable: true })
  const account = await runChaos(fleet, {
    executions: 2000,
    workers: 4,
    killEveryMs: 1000,
    patienceMs: 200_000,
  })
  console.info(JSON.stringify(account))
  expect(account).toMatchObject({ accepted: 2000, ended: 2000, rows: account.attempts, contradictions: 0 })
  expect(account.chargedByCounter).toBe(account.chargedByRows)
  expect(Object.keys(account.endings)).toContain('ok')
  await expectNothingHeld(fleet)
}, 400_000)
