/** MCP as an agent sees it: real programs in real sandboxes, over HTTP and over stdio. */
import { fileURLToPath } from 'node:url'
import type { RunningApi } from '@cofferdam/api'
import { needs } from '@cofferdam/embedded/needs'
import { Client, StreamableHTTPClientTransport, type CallToolResult } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterAll, beforeAll, expect } from 'vitest'
import { DAY_MS, untilWindowLasts } from '../../libs/embedded/src/window-end.ts'
import { startFleet, type Fleet } from '../fleet.ts'

const onProcess = needs('process-namespaces')
const CLI = fileURLToPath(new URL('../../apps/cli/src/main.ts', import.meta.url))
let fleet: Fleet
let api: RunningApi
const keys: Record<string, string> = {}

beforeAll(async () => {
  fleet = await startFleet()
  for (const tenant of ['acme', 'spent']) {
    const caps = { tenant_daily: tenant === 'spent' ? 1 : 1000, agent_hourly: 1000 }
    await fleet.createTenant(tenant, { caps })
    keys[tenant] = (await fleet.store.keys.create({ tenant_id: tenant }, 'test')).key
  }
  await fleet.runWorker({ COFFERDAM_BACKENDS: 'process', COFFERDAM_SLOTS: '2' })
  api = await fleet.runApi()
})
afterAll(() => fleet?.[Symbol.asyncDispose]())

const newClient = () =>
  new Client({ name: 'test', version: '1.0.0' }, { versionNegotiation: { mode: 'auto' } })

async function connect(tenant: string): Promise<Client & AsyncDisposable> {
  const requestInit = { headers: { authorization: `Bearer ${keys[tenant]}` } }
  const client = newClient()
  await client.connect(new StreamableHTTPClientTransport(new URL(`${api.url}/mcp`), { requestInit }))
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.close() })
}

type Answer = CallToolResult & {
  // The tests check the content of the answer.
  // oxlint-disable-next-line typescript/no-explicit-any
  structuredContent?: any
}

const call = async (client: Client, name: string, args: Record<string, unknown>): Promise<Answer> =>
  (await client.callTool({ name, arguments: args }, { timeout: 90_000 })) as Answer

const textOf = ({ content }: Answer): string =>
  content.map((block) => (block.type === 'text' ? block.text : '')).join('\n')

const python = (source: string, more: object = {}) => ({ language: 'python', source, ...more })

onProcess.it('keeps variables and files in a session, and reads and writes them', async () => {
  await using client = await connect('acme')
  const session = 'notebook'
  const first = await call(client, 'run_code', python('n = 41\nopen("n.txt", "w").write("one")', { session }))
  expect(first.structuredContent).toMatchObject({ ok: true, session: { fresh: true } })
  const next = await call(client, 'run_code', python('n + 1', { session }))
  expect(next.structuredContent).toMatchObject({ value: 42, session: { fresh: false, interpreter: 'kept' } })
  const shell = await call(client, 'run_command', { shell: 'cat n.txt', session })
  expect(shell.structuredContent.stdout).toBe('one')
  await call(client, 'session_files', { session, op: 'write', path: 'in/a.txt', content: 'äb' })
  const listed = await call(client, 'session_files', { session, op: 'list' })
  expect(listed.structuredContent.files.map(({ path }: { path: string }) => path).toSorted()).toEqual([
    'in/a.txt',
    'main.py',
    'n.txt',
  ])
  const read = await call(client, 'session_files', { session, op: 'read', path: 'in/a.txt' })
  expect([textOf(read), read.structuredContent.content, read.structuredContent.size]).toEqual(['äb', 'äb', 3])
  const missing = await call(client, 'session_files', { session, op: 'read', path: 'nothing' })
  expect([missing.isError, textOf(missing)]).toEqual([true, expect.stringMatching(/^not_found: /)])
  await call(client, 'session_files', { session, op: 'remove', path: 'n.txt' })
  expect((await call(client, 'session_files', { session, op: 'end' })).isError ?? false).toBe(false)
  const gone = await call(client, 'session_files', { session, op: 'list' })
  expect(textOf(gone)).toMatch(/^session_not_found: /)
})

const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=='

onProcess.it('gets images as images, and other files as links that can be read', async () => {
  await using client = await connect('acme')
  const source = `import base64
open("plot.png", "wb").write(base64.b64decode("${PNG}"))
open("fake.png", "w").write("no image")
open("data.bin", "wb").write(bytes([0, 255, 7]))`
  const result = await call(client, 'run_code', python(source, { artifacts: ['*.png', '*.bin'] }))
  expect(result.content.filter(({ type }) => type === 'image')).toEqual([
    { type: 'image', data: PNG, mimeType: 'image/png' },
  ])
  const links = result.content.flatMap((block) => (block.type === 'resource_link' ? [block] : []))
  expect(links.map(({ name }) => name).toSorted()).toEqual(['data.bin', 'fake.png'])
  const uri = links.find(({ name }) => name === 'data.bin')?.uri ?? ''
  expect((await client.readResource({ uri })).contents).toEqual([
    { uri, mimeType: 'application/octet-stream', blob: Buffer.from([0, 255, 7]).toString('base64') },
  ])
})

onProcess.it('gets hostile output in bounds, and its text without what hides or moves words', async () => {
  await using client = await connect('acme')
  const source = String.raw`import sys
out = sys.stdout.buffer
out.write(b"\x1b[2J\x1b]0;title\x07plain\r\n\xff\xfe\x00")
out.write("\u202eevil\U000E0041".encode())
for _ in range(40): out.write(b"x" * 1024 * 1024)`
  const result = await call(client, 'run_code', python(source))
  const text = textOf(result)
  expect(text).toContain('plain\n')
  // oxlint-disable-next-line no-control-regex
  expect(text).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u{e0000}-\u{e007f}]/u)
  expect(text.length).toBeLessThanOrEqual(20_000)
  expect(JSON.stringify(result).length).toBeLessThan(200_000)
  expect(result.structuredContent).toMatchObject({ stdout_truncated: true })
  expect(result.structuredContent.stdout_bytes).toBeGreaterThan(40 * 1024 * 1024)
})

onProcess.it('runs tests, and gets every failure', async () => {
  await using client = await connect('acme')
  const content = `import unittest
class Sums(unittest.TestCase):
    def test_good(self): self.assertEqual(1 + 1, 2)
    def test_bad(self): self.assertEqual(1 + 1, 3)
`
  const result = await call(client, 'run_tests', { files: [{ path: 'test_sums.py', content }] })
  expect(result.isError).toBe(false)
  expect(result.structuredContent).toMatchObject({ ok: false, tests: { passed: 1, failed: 1 } })
  expect(textOf(result)).toMatch(/Tests: 1 passed, 1 failed.*\n- .*test_bad/)
})

onProcess.it('gets a cap that was reached as an error that says when to come back', async () => {
  // The cap counts by UTC day, so the day must not end during the test.
  await untilWindowLasts(DAY_MS, 60_000)
  await using client = await connect('spent')
  expect((await call(client, 'run_code', python('1'))).structuredContent.ok).toBe(true)
  const refused = await call(client, 'run_code', python('1'))
  const { resets_at } = refused.structuredContent
  expect(refused.isError).toBe(true)
  expect(refused.structuredContent).toMatchObject({ ending: 'cap_exceeded', dimension: 'tenant_daily' })
  expect(textOf(refused)).toContain(`Do not repeat the call before ${resets_at}.`)
  const asked = await call(client, 'execute_code', { code: 'print(1)' })
  expect(asked.isError ?? false).toBe(false)
  expect(asked.structuredContent).toMatchObject({
    ok: false,
    exit_status: 'cap_exceeded',
    error: 'SandboxCapExceeded',
    dimension: 'tenant_daily',
    resets_at,
  })
})

onProcess.it('has the same tools over stdio, whose stdout has nothing but messages', async () => {
  const client = newClient()
  const errors: unknown[] = []
  client.onerror = (error) => {
    // The SDK handles notifications a moment later than answers. If the answer came first, it no longer knows
    // the progress token. That is no error.
    if (!error.message.startsWith('Received a progress notification for an unknown token')) errors.push(error)
  }
  const { PATH = '' } = process.env
  const env = { PATH, COFFERDAM_URL: api.url, COFFERDAM_API_KEY: keys['acme'] ?? '' }
  const command = { command: process.execPath, args: [CLI, 'mcp', '--agent', 'coder'], env }
  const transport = new StdioClientTransport({ ...command, stderr: 'pipe' })
  await client.connect(transport)
  try {
    await using direct = await connect('acme')
    expect((await client.listTools()).tools).toEqual((await direct.listTools()).tools)
    const seen: string[] = []
    const result = (await client.callTool(
      // The client ignores progress after the answer. So the program sleeps until its start has been
      // reported.
      {
        name: 'run_code',
        arguments: python('import time; time.sleep(2); print("\\x1b[31m{\\"jsonrpc\\":\\n")'),
      },
      { timeout: 90_000, onprogress: ({ message }) => seen.push(message ?? '') },
    )) as Answer
    expect(result.structuredContent.stdout).toBe('\u001b[31m{"jsonrpc":\n\n')
    expect(seen).toContain('started on process (jail)')
    expect(errors).toEqual([])
  } finally {
    await client.close()
  }
})
