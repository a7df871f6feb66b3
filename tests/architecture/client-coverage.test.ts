/** The client has a method for each operation of the API, and sends what the OpenAPI document says. */
import { createClient, type HttpClient } from '@cofferdam/client'
import { beforeAll, describe, expect, it } from 'vitest'
import { describeApi } from '@cofferdam/api'
import type { ApiDocument } from '../../scripts/client-types.ts'

/** Left out: probes and metrics of operators, the tool server, and the paths of one customer. */
const NOT_COVERED = /^\/(healthz|readyz|metrics|mcp|api\/sandbox)\b/

const ID = 'exe_0190a5b5c7e0700080000000000000aa'
const REQUEST = {
  tenant_id: 'acme',
  agent_id: 'agent-1',
  program: { type: 'script', language: 'python', source: 'print(1)' },
} as const
const SESSION = { backend: 'docker', key: 'chat-1', tenant_id: 'acme' }
const RANGE = { range: { first: 0, last: 9 } }

/** One call of each method that sends its own kind of request. Methods that combine others are left out. */
const CALLS: readonly ((client: HttpClient) => unknown)[] = [
  (client) => client.enqueue(REQUEST),
  (client) => client.get(ID),
  (client) => client.cancel(ID, 'enough'),
  (client) => Array.fromAsync(client.stream(ID)),
  (client) => client.executions.list({ status: 'live', limit: 1 }).page(),
  (client) => client.executions.output(ID, 'stdout', RANGE),
  (client) => client.executions.artifacts(ID),
  (client) => client.executions.artifact(ID, 'folder/a file.txt', RANGE),
  (client) => client.executions.trace(ID),
  (client) => client.executions.why(ID),
  (client) => client.executions.rerun(ID, { edit: { args: ['x'] }, waitMs: 1000 }),
  (client) => client.executions.compare(ID, ID),
  (client) => client.sessions.list({ tenant_id: 'acme' }).page(),
  (client) => client.sessions.get(SESSION),
  (client) => client.sessions.end(SESSION),
  (client) => client.sessions.pause(SESSION),
  (client) => client.sessions.resume(SESSION),
  (client) => client.sessions.fork(SESSION, ['copy']),
  (client) => client.sessions.files(SESSION, 'folder'),
  (client) => client.sessions.readFile(SESSION, 'folder/a.txt'),
  (client) => client.sessions.writeFile(SESSION, 'folder/a.txt', 'text'),
  (client) => client.sessions.removeFile(SESSION, 'folder/a.txt'),
  (client) => client.sessions.outputs('run-1', { tenant_id: 'acme' }).page(),
  (client) => client.sessions.output('run-1', 'a.txt', { tenant_id: 'acme' }),
  (client) => client.routines.create({ name: 'nightly', request: REQUEST }),
  (client) => client.routines.list({ tenant_id: 'acme' }).page(),
  (client) => client.routines.get('rtn_1'),
  (client) => client.routines.change('rtn_1', { enabled: false }),
  (client) => client.routines.delete('rtn_1'),
  (client) => client.routines.run('rtn_1'),
  (client) => client.routines.runs('rtn_1', { limit: 5 }),
  (client) => client.routines.events('rtn_1', { limit: 5 }),
  (client) => client.workspaces.list('acme'),
  (client) => client.workspaces.get('acme', 'notes'),
  (client) => client.workspaces.put('acme', 'notes', { archive_base64: '', expected_version: 0 }),
  (client) => client.workspaces.delete('acme', 'notes'),
  (client) => client.tenants.create({ tenant_id: 'acme' }),
  (client) => client.tenants.list({ limit: 5 }).page(),
  (client) => client.tenants.get('acme'),
  (client) => client.tenants.cancel('acme', { state: 'all' }),
  (client) => client.tenants.policy('acme'),
  (client) => client.tenants.replacePolicy('acme', {} as never),
  (client) => client.tenants.changePolicy('acme', { sandbox_enabled: true }),
  (client) => client.tenants.policyEvents('acme', { limit: 5 }).page(),
  (client) => client.tenants.templates('acme'),
  (client) => client.tenants.template('acme', 'default'),
  (client) => client.tenants.putTemplate('acme', 'default', { sandbox: { environment: 'internal-only' } }),
  (client) => client.tenants.caps('acme'),
  (client) => client.tenants.replaceCaps('acme', {} as never),
  (client) => client.tenants.changeCaps('acme', { tenant_daily: 0 }),
  (client) => client.tenants.usage('acme', { agent_id: 'agent-1' }),
  (client) => client.tenants.usageReport('acme', { group_by: 'agent' }),
  (client) => client.tenants.createKey('acme', { label: 'ci' }),
  (client) => client.tenants.keys('acme'),
  (client) => client.tenants.revokeKey('acme', 'key-1'),
  (client) => client.tenants.rotateCallbackSecret('acme'),
  (client) => client.tenants.callbackSecret('acme'),
  (client) => client.tenants.deleteCallbackSecret('acme'),
  (client) => client.audit.list({ tenant_id: 'acme' }).page(),
  (client) => Array.fromAsync(client.audit.export({ tenant_id: 'acme' })),
  (client) => firstOf(client.audit.follow({ tenant_id: 'acme' })),
  (client) => client.fleet.queue(),
  (client) => client.fleet.queueTenants({ sort: 'lag', limit: 10 }),
  (client) => client.fleet.stats({ group_by: 'ending' }),
  (client) => client.fleet.backends(),
  (client) => client.fleet.testBackend('docker', { tenant_id: 'acme' }),
  (client) => client.fleet.events({ limit: 5 }).page(),
  (client) => client.fleet.adminKeys(),
  (client) => client.fleet.createAdminKey({ label: 'laptop', read_only: true }),
  (client) => client.fleet.revokeAdminKey('k_7'),
]

async function firstOf<T>(items: AsyncIterable<T>): Promise<T | undefined> {
  for await (const item of items) return item
  return undefined
}

interface Sent {
  method: string
  path: string
  query: string[]
}

/** Every request that the calls send, answered with an empty body of the right shape. */
async function sentRequests(): Promise<Sent[]> {
  const sent: Sent[] = []
  await using client = createClient({
    baseUrl: 'http://api.test',
    apiKey: 'cfd_test',
    fetch: async (input, init) => {
      const { pathname, searchParams } = new URL(input as string)
      sent.push({ method: init?.method ?? 'GET', path: pathname, query: [...searchParams.keys()] })
      if (pathname.endsWith('/events') && pathname.includes('/executions/'))
        return new Response(null, { status: 204 })
      const body = { invocations: [{}], execution_id: ID, status: 'queued' }
      return new Response(pathname.endsWith('/export') ? '' : JSON.stringify(body))
    },
  })
  for (const call of CALLS) await call(client)
  return sent
}

describe('the HTTP client', () => {
  let document: ApiDocument
  let sent: Sent[]
  beforeAll(async () => {
    document = (await describeApi()) as unknown as ApiDocument
    sent = await sentRequests()
  })

  /** The operation that a request belongs to. Fixed parts of a path win over parameters. */
  const operationOf = ({ method, path }: Sent) => {
    const candidates = Object.entries(document.paths).filter(([template, methods]) => {
      const pattern = template.replaceAll('/{path}', '/.+').replaceAll(/\{[^}]+\}/g, '[^/]+')
      return new RegExp(`^${pattern}$`).test(path) && methods[method.toLowerCase()] !== undefined
    })
    const [template, methods] = candidates.toSorted(([a], [b]) => fixedParts(b) - fixedParts(a))[0] ?? []
    return { template, operation: methods?.[method.toLowerCase()] }
  }

  it('sends only requests that the document has, with query parameters that it has', () => {
    for (const one of sent) {
      const { operation } = operationOf(one)
      const known = (operation?.parameters ?? []).filter((parameter) => parameter.in === 'query')
      expect(operation, `${one.method} ${one.path}`).toBeDefined()
      expect(known.map(({ name }) => name)).toEqual(expect.arrayContaining(one.query))
    }
  })

  it('has a method for every operation of the document', () => {
    const reached = new Set(sent.map((one) => operationOf(one).operation?.operationId))
    const missing = Object.entries(document.paths)
      .filter(([path]) => !NOT_COVERED.test(path))
      .flatMap(([, methods]) => Object.values(methods))
      .filter(({ operationId }) => !reached.has(operationId))
    expect(missing.map(({ operationId }) => operationId)).toEqual([])
  })
})

const fixedParts = (template: string): number =>
  template.split('/').filter((part) => part !== '' && !part.startsWith('{')).length
