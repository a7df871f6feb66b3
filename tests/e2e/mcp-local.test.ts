/** `cofferdam mcp --local`: a client in an empty folder gets tools that work, and leaves nothing behind. */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { needs } from '@cofferdam/embedded/needs'
import { Client } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { processesNaming, run } from '../../apps/cli/test/command-process.ts'

const onProcess = needs('process-namespaces')
const CLI = fileURLToPath(new URL('../../apps/cli/src/main.ts', import.meta.url))
let dataDir: string

beforeEach(async () => {
  dataDir = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-local-'))
  // If root has no user namespaces, its Postgres runs as another user. That user must be able to enter this
  // folder.
  await chmod(dataDir, 0o711)
})
afterEach(() => rm(dataDir, { recursive: true, force: true }))

/** A client that starts the command. `errors`: what it could not read from stdout. */
async function connect() {
  const { PATH = '' } = process.env
  const env = { PATH, HOME: os.tmpdir(), COFFERDAM_DATA_DIR: dataDir, COFFERDAM_BACKENDS: 'process' }
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [CLI, 'mcp', '--local'],
    env,
    stderr: 'pipe',
  })
  let notes = ''
  transport.stderr?.on('data', (text: Buffer) => (notes += text.toString()))
  const client = new Client({ name: 'test', version: '1.0.0' })
  const errors: unknown[] = []
  client.onerror = (error) => errors.push(error)
  await client.connect(transport, { timeout: 150_000 })
  return { client, errors, notes: () => notes }
}

describe('cofferdam mcp --local', () => {
  onProcess.it(
    'starts a fleet for its client, writes messages alone to stdout, and stops the fleet',
    async () => {
      const { client, errors, notes } = await connect()
      try {
        expect((await client.listTools()).tools).toHaveLength(7)
        const args = { language: 'python', source: '6 * 7' }
        const result = await client.callTool({ name: 'run_code', arguments: args }, { timeout: 120_000 })
        expect(result.structuredContent).toMatchObject({ ok: true, value: 42 })
        expect(notes()).toContain('No fleet runs here. Starting one')
      } finally {
        await client.close()
      }
      expect(errors).toEqual([])
      await expect.poll(() => processesNaming(dataDir), { timeout: 60_000 }).toEqual([])
    },
  )

  onProcess.inLongTier('uses the fleet that another client started, and leaves it running', async () => {
    const first = await connect()
    try {
      const second = await connect()
      expect((await second.client.listTools()).tools).toHaveLength(7)
      expect(second.notes()).not.toContain('Starting one')
      await second.client.close()
      expect((await first.client.listTools()).tools).toHaveLength(7)
    } finally {
      await first.client.close()
    }
    await expect.poll(() => processesNaming(dataDir), { timeout: 60_000 }).toEqual([])
  })

  it('is refused together with an address', async () => {
    const place = { cwd: dataDir, env: { COFFERDAM_DATA_DIR: dataDir } }
    const { status, stdout, stderr } = await run(['mcp', '--local', '--url', 'http://127.0.0.1:9'], place)
    expect([status, stdout]).toEqual([2, ''])
    expect(stderr).toContain('--local starts a fleet here')
  })
})
