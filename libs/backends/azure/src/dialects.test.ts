import { CofferdamError } from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { createExecutions, type Dialect } from './dialects.ts'
import type { PoolApi } from './pool-api.ts'

const config = { interpreter: 'python', dialect: 'auto', api_timeout_ms: 1000 } as const
const PATHS: Record<string, Dialect> = { '/executions': 'new', '/code/execute': 'old' }

/**
 * A pool that supports these dialects. It refuses the first `strayRefusals` calls as if their dialect were
 * wrong.
 */
function poolOf(speaks: readonly Dialect[], strayRefusals: number): { api: PoolApi; asked: string[] } {
  const asked: string[] = []
  const result = { status: 'Succeeded', stdout: '', stderr: '', result: { stdout: '', stderr: '' } }
  const api = {
    call: async ({ path }: { path: string }) => {
      const dialect = PATHS[path] ?? 'shell'
      asked.push(dialect)
      if (asked.length <= strayRefusals || !speaks.includes(dialect))
        throw new CofferdamError('sandbox_open_failed', 'refused', {
          details: { status: 400, azure: 'SessionPropertiesMissing' },
        })
      const body = dialect === 'old' ? { properties: result } : result
      return { status: 200, type: 'application/json', body: Buffer.from(JSON.stringify(body)) }
    },
  } as unknown as PoolApi
  return { api, asked }
}

test.each([
  ['one stray refusal', ['new', 'old'], 1, ['new', 'new', 'new']],
  ['a pool that speaks the other one alone', ['old'], 0, ['new', 'new', 'old', 'old']],
] as const)(
  'after %s the next execution uses the dialect that worked',
  async (_words, speaks, stray, asked) => {
    const pool = poolOf(speaks, stray)
    const executions = createExecutions(pool.api, config)
    for (let n = 0; n < 2; n += 1)
      await executions.run('identifier', ['true'], { seconds: 1, isRepeatable: false })
    expect(pool.asked).toEqual(asked)
  },
)

test('a pool that supports neither dialect is tried with both, and its own refusal is reported', async () => {
  const pool = poolOf([], 0)
  const run = createExecutions(pool.api, config).run('identifier', ['true'], {
    seconds: 1,
    isRepeatable: false,
  })
  await expect(run).rejects.toMatchObject({ details: { azure: 'SessionPropertiesMissing' } })
  expect(pool.asked).toEqual(['new', 'new', 'old'])
})
