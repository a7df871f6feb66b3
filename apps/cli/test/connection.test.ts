/** Which API a command talks to, and what it says when none answers. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { runHere } from './command-here.ts'

/** Answers with a list of tenants. Below /away it answers as a proxy whose API is down. */
const server: Server = createServer((request, response) => {
  response.statusCode = (request.url ?? '').startsWith('/away/') ? 502 : 200
  response.end(JSON.stringify({ tenants: [], next_cursor: null }))
})
const dataDir = mkdtempSync(path.join(tmpdir(), 'cofferdam-connection-'))
const place = {
  cwd: dataDir,
  env: { COFFERDAM_DATA_DIR: dataDir, COFFERDAM_API_KEY: `cfd_${'0'.repeat(40)}` },
}
let url = ''
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
})
afterAll(() => {
  server.closeAllConnections()
  server.close()
  rmSync(dataDir, { recursive: true, force: true })
})

it('a command finds the API that `up` started in its data directory, on whatever port', async () => {
  writeFileSync(path.join(dataDir, 'api.url'), `${url}\n`)
  const found = await runHere(['tenant', 'list', '--json'], place)
  expect([found.status, JSON.parse(found.stdout)]).toEqual([0, []])
})

it.each([
  ['nobody listens', () => 'http://127.0.0.1:9'],
  ['a proxy answers 502', () => `${url}/away`],
])('a command reports that the API is unreachable when %s', async (_what, at) => {
  const { status, stderr } = await runHere(['tenant', 'list', '--json', '--url', at()], place)
  expect([status, JSON.parse(stderr).error.code]).toEqual([1, 'unreachable'])
})
