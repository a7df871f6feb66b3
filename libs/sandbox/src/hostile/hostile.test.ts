import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  StopReason,
  type Program,
  type SandboxSpec,
} from '@cofferdam/contract'
import { expect, test } from 'vitest'
import { fakeSource } from '../fake/index.ts'
import { createHostileBackend, type HostileTricks } from './index.ts'

const hello: Program = {
  type: 'script',
  language: 'python',
  source: fakeSource({ print: 'hello' }, { sleep_ms: 1 }),
}
const spec = (program: Program = hello): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 't',
  owner: newWorkerId('0123456789ab'),
  program,
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
})
const never = new AbortController().signal

async function runWith(tricks: HostileTricks, signal = never) {
  await using backend = createHostileBackend({ tricks: [tricks] })
  await using sandbox = await backend.open(spec(), never)
  const chunks: Uint8Array[] = []
  const exit = await sandbox.run(hello, {
    signal,
    maxOutputBytes: { stdout: 100, stderr: 100 },
    onOutput: (_stream, chunk) => {
      chunks.push(chunk)
    },
  })
  return { exit, chunks }
}

test('ends a hanging open only by its abort', async () => {
  await using backend = createHostileBackend({ tricks: [{ open: 'hangs' }] })
  const stop = new AbortController()
  const reason = new StopReason('cancelled')
  const opening = backend.open(spec(), stop.signal)
  stop.abort(reason)
  await expect(opening).rejects.toBe(reason)
  expect(backend.opened).toBe(1)
})

test('fails an open with our error or with a foreign one', async () => {
  await using backend = createHostileBackend({ tricks: [{ open: 'fails' }, { open: 'throws_foreign' }, {}] })
  await expect(backend.open(spec(), never)).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  await expect(backend.open(spec(), never)).rejects.toBeInstanceOf(TypeError)
  await (await backend.open(spec(), never))[Symbol.asyncDispose]()
  await expect(backend.open(spec(), never)).rejects.toMatchObject({ code: 'sandbox_open_failed' })
})

test('dies after the first output', async () => {
  await expect(runWith({ run: 'dies' })).rejects.toMatchObject({ code: 'sandbox_lost' })
  await expect(runWith({ run: 'violates_protocol' })).rejects.toMatchObject({ code: 'protocol_violation' })
})

test('hangs until the abort', async () => {
  const reason = new StopReason('hard_deadline')
  await expect(runWith({ run: 'hangs' }, AbortSignal.abort(reason))).rejects.toBe(reason)
})

test('lies about what it counted', async () => {
  const { exit } = await runWith({ exit: 'lies_about_bytes' })
  expect(exit.outputBytes.stdout).toBe(-1)
})

test('floods beyond the agreed bytes, and splits output into single bytes', async () => {
  const flooded = await runWith({ flood_bytes: 1_000_000 })
  expect(flooded.chunks.reduce((sum, chunk) => sum + chunk.length, 0)).toBe(1_000_006)
  const crumbled = await runWith({ crumbles_output: true })
  expect(crumbled.chunks.map((chunk) => chunk.length)).toEqual([1, 1, 1, 1, 1, 1])
})

test('sends output after the exit', async () => {
  const { chunks } = await runWith({ exit: 'talks_after_exit' })
  await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
  expect(Buffer.concat(chunks).toString()).toBe('hello\nafter the end\n')
})

test('disposes slowly, and finishes', async () => {
  await using backend = createHostileBackend({ tricks: [{ dispose_slow_ms: 30 }] })
  const sandbox = await backend.open(spec(), never)
  await sandbox[Symbol.asyncDispose]()
  expect(await backend.owners()).toEqual([])
})

test('lists files that do not exist', async () => {
  await using backend = createHostileBackend({ tricks: [{ files_lie: true }] })
  await using sandbox = await backend.open(spec(), never)
  expect((await sandbox.list(['**'], 10))[0]).toEqual({ path: '../../etc/passwd', size: -1 })
  expect((await sandbox.read('a', 3)).length).toBe(4)
})
