import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { defaultCaps, defaultPolicy } from '@cofferdam/store'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { run } from './command-process.ts'

/** An API with three pages of two tenants each. */
const server = createServer((request, response) => {
  const cursor = new URL(request.url ?? '', 'http://here').searchParams.get('cursor')
  const page = cursor === null ? 0 : Number(cursor)
  const tenants = [0, 1].map((n) => ({ policy: defaultPolicy(`t${2 * page + n}`), caps: defaultCaps() }))
  response.setHeader('content-type', 'application/json')
  response.end(JSON.stringify({ tenants, next_cursor: page === 2 ? null : String(page + 1) }))
})
let url = ''
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
})

it('tenant list reads every page', async () => {
  const env = { COFFERDAM_URL: url, COFFERDAM_API_KEY: `cfd_${'0'.repeat(40)}` }
  const { stdout, status } = await run(['tenant', 'list', '--json'], { cwd: tmpdir(), env })
  expect(status).toBe(0)
  const listed = JSON.parse(stdout) as { policy: { tenant_id: string } }[]
  expect(listed.map(({ policy }) => policy.tenant_id)).toEqual(['t0', 't1', 't2', 't3', 't4', 't5'])
})
