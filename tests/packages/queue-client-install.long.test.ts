/** The tarball of the client over Redis in an empty folder: types, and an execution in a queue. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { isolatedRedis } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { pack } from '../../scripts/packages/pack.ts'
import { publishedPackage } from '../../scripts/packages/published.ts'
import { done, INSTALL_MS, installTools, NODES, ROOT, start } from './tools.ts'

const PROGRAM = `
import { createQueueClient } from '@cofferdam/queue-client'
const client = createQueueClient({ redisUrl: process.argv[2] ?? '' })
const program = { type: 'script', language: 'python', source: 'print(1)' } as const
const { execution_id } = await client.enqueue({ tenant_id: 'acme', agent_id: 'agent-1', program })
const state = await client.get(execution_id)
console.log(state?.status, await client.cancel(execution_id))
await client.close()
`

let folder: string
beforeAll(async () => {
  await installTools()
  folder = await mkdtemp(path.join(os.tmpdir(), 'cofferdam-queue-client-'))
  const { file, files } = await pack(ROOT, publishedPackage('@cofferdam/queue-client'), folder)
  expect(files.filter(({ path: name }) => name.endsWith('.lua')).length).toBeGreaterThan(10)
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  await writeFile(path.join(folder, 'main.ts'), PROGRAM)
  await done(start('npm', ['install', '--no-audit', '--no-fund', file], folder))
}, INSTALL_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

it('enqueues, reads and cancels with strict types on Node 24', async () => {
  const redis = await isolatedRedis()
  onTestFinished(() => redis.stop())
  const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
  const types = ['--types', 'node', '--typeRoots', path.join(ROOT, 'node_modules/@types')]
  const options = ['--strict', '--module', 'nodenext', '--target', 'es2023', '--skipLibCheck', ...types]
  await done(start(process.execPath, [tsc, 'main.ts', ...options], folder))
  const output = await done(start(NODES['node-24'] ?? '', ['main.js', redis.url], folder))
  expect(output).toBe('queued cancelled\n')
})
