/** Our client reads Microsoft's examples, and the double's answers have their form. */
import { replay } from '@cofferdam/backend-remote/testing'
import { expect, it } from 'vitest'
import { AZURE } from '../double/published.ts'
import { createExecutions } from '../src/dialects.ts'
import { createPoolApi } from '../src/pool-api.ts'
import { createSessionsAtPool } from '../src/sessions-at-pool.ts'

/**
 * Examples of Azure/azure-rest-api-specs, specification/app/data-plane/Microsoft.App.DynamicSessions/preview
 * (MIT), and `CONTAINER_LIST` of MicrosoftDocs/azure-docs,
 * articles/container-apps/sessions-custom-container.md.
 */
const LIST_SESSIONS = {
  sessions: [
    {
      identifier: 'testid1',
      expireAt: '2025-01-05T22:18:41.752Z',
      createdAt: '2025-01-21T03:38:05.232Z',
      lastAccessedAt: '2025-01-21T03:38:05.232Z',
      etag: '9334cb07-aafd-45a0-90bd-448080a91f57',
    },
  ],
}
const CONTAINER_LIST = {
  value: [
    {
      identifier: 'user-123',
      etag: 'a1b2c3d4',
      expiresAt: '2026-04-30T14:30:00Z',
      createdAt: '2026-04-30T13:30:00Z',
      lastAccessedAt: '2026-04-30T14:29:00Z',
    },
  ],
  count: 1,
  nextLink: 'https://my-pool.env-id.westus2.azurecontainerapps.io/.management/listSessions?skip=300',
}
const executed = (executionType: string, more: object): object => ({
  id: 'testExecutionId',
  identifier: 'testSessionIdentifier',
  executionType,
  ...more,
})
const done = (executionResult: unknown, stdout = ''): object => ({
  status: 'Succeeded',
  result: { stdout, stderr: '', executionResult, executionTimeInMilliseconds: 4 },
})
const EXECUTE_SYNC = executed('Synchronous', done('', '63/n'))
const EXECUTE_NAN = executed('Synchronous', done('nan'))
const EXECUTE_NONE = executed('Synchronous', done(null))
const EXECUTE_RUNNING = executed('Asynchronous', { status: 'Running' })
const FILES_LIST = {
  value: [
    {
      name: 'testfile.yaml',
      directory: 'test-sub-directory',
      type: 'File',
      contentType: 'application/yaml',
      sizeInBytes: 4,
      lastModifiedAt: '2024-05-29T00:00:00.000Z',
    },
    {
      name: 'test-sub-directory',
      directory: '',
      type: 'Directory',
      lastModifiedAt: '2024-04-29T00:00:00.000Z',
    },
  ],
  nextLink: null,
}

const pool = (endpoint: string, kind: 'interpreter' | 'container') =>
  createPoolApi({
    endpoint,
    kind,
    tokens: { get: async () => 'token', refused: () => undefined, answeredBy: null },
    timeoutMs: 5000,
    roleGrantedAtMs: null,
  })

it('the shapes of Azure’s double accept Azure’s examples', () => {
  AZURE.checkAnswer('GET', '/listSessions', 200, LIST_SESSIONS)
  AZURE.checkAnswer('GET', '/session', 200, LIST_SESSIONS.sessions[0])
  AZURE.checkAnswer('POST', '/.management/listSessions', 200, CONTAINER_LIST)
  for (const answer of [EXECUTE_SYNC, EXECUTE_NAN, EXECUTE_NONE])
    AZURE.checkAnswer('POST', '/executions', 200, answer)
  AZURE.checkAnswer('POST', '/executions', 202, EXECUTE_RUNNING)
  AZURE.checkAnswer('GET', '/files', 200, FILES_LIST)
  AZURE.checkAnswer('POST', '/files', 200, { ...FILES_LIST.value[0], directory: undefined })
  expect(() => AZURE.checkAnswer('GET', '/listSessions', 200, CONTAINER_LIST)).toThrow('not as published')
})

it('reads Microsoft’s examples of sessions in interpreter and container pools', async () => {
  const { origin } = await replay({
    'GET /listSessions': { status: 200, body: LIST_SESSIONS },
    'POST /.management/listSessions': [
      { status: 200, body: CONTAINER_LIST },
      { status: 200, body: { value: [], count: 0, nextLink: null } },
    ],
  })
  const listed = (kind: 'interpreter' | 'container') => createSessionsAtPool(pool(origin, kind), kind).list()
  expect([await listed('interpreter'), await listed('container')]).toEqual([['testid1'], ['user-123']])
})

it.each([
  ['at once', [EXECUTE_SYNC], '63/n'],
  ['whose value is NaN', [EXECUTE_NAN], ''],
  ['whose value is None', [EXECUTE_NONE], ''],
  ['later', [EXECUTE_RUNNING, EXECUTE_SYNC], '63/n'],
])('reads Microsoft’s example of an execution that ended %s', async (_words, answers, stdout) => {
  const [first, last] = [answers[0], answers.at(-1)]
  const { origin, bodies } = await replay({
    'POST /executions': { status: 200, body: first },
    'GET /executions/testExecutionId': { status: 200, body: last },
  })
  const config = { interpreter: 'python', dialect: 'auto', api_timeout_ms: 5000 } as const
  const executions = createExecutions(pool(origin, 'interpreter'), config)
  const ran = await executions.run('testSessionIdentifier', ['true'], { seconds: 1, isRepeatable: false })
  expect(ran).toEqual({ succeeded: true, stdout, stderr: '' })
  expect(AZURE.faultOfRequest('POST', '/executions', bodies[0])).toBeNull()
})
