import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

let t: TestStore
let partition = ''

beforeAll(async () => {
  t = await openTestStore()
  // All at one time, so that midnight does not put them into two partitions.
  const atMs = Date.now()
  for (const tenant of ['acme', 'globex']) await t.store.record(sampleAttempt({ tenant, atMs }))
  const { rows } = await t.owner('select tableoid::regclass::text as name from sandbox_invocations limit 1')
  partition = String(rows[0]?.['name'])
})
afterAll(() => t.close())

describe('audit_faults', () => {
  const faults = async (): Promise<unknown[]> =>
    (await t.as('cofferdam_sweeper', 'select * from audit_faults() order by 1, 2')).rows.map(
      (row) => `${String(row['at_table'])}: ${String(row['fault'])}`,
    )

  it('finds nothing in untouched tables', async () => {
    expect(await faults()).toEqual([])
    expect(await t.store.retention.auditFaults()).toEqual([])
  })

  it('names what an owner did to bypass the triggers: disable, detach, grant, change', async () => {
    await t.owner(`alter table ${partition} disable trigger append_only`)
    await t.owner(`delete from ${partition} where tenant_id = 'globex'`)
    const { rows } = await t.owner(`select expires_on::text as day from ${partition} limit 1`)
    expect(await faults()).toEqual([
      `sandbox_invocations: 2 attempts expire on ${String(rows[0]?.['day'])}, but 1 rows are there`,
      `${partition}: trigger append_only is missing or switched off`,
    ])
    expect(await t.store.retention.auditFaults()).toEqual(await faults())
    // Without `always`, the re-enabled trigger does not fire in replication sessions. This is detected, too.
    await t.owner(`alter table ${partition} enable trigger append_only`)
    expect(await faults()).toContain(`${partition}: trigger append_only is missing or switched off`)
    await t.owner(`alter table ${partition} enable always trigger append_only`)
    await t.owner(`alter table sandbox_invocations disable row level security`)
    await t.owner(`grant update, select on ${partition} to cofferdam_app`)
    expect(await faults()).toEqual(
      expect.arrayContaining([
        'sandbox_invocations: row-level security is switched off',
        `${partition}: cofferdam_app may update`,
        `${partition}: cofferdam_app may select past row-level security`,
      ]),
    )
    await t.owner(`alter table sandbox_invocations enable row level security`)
    await t.owner(`revoke update, select on ${partition} from cofferdam_app`)
    await t.owner(`alter table sandbox_invocations detach partition ${partition}`)
    expect(await faults()).toEqual(
      expect.arrayContaining([
        `${partition}: is no partition of its parent`,
        // DETACH also removes the cloned row trigger.
        `${partition}: trigger append_only is missing or switched off`,
      ]),
    )
  })
})
