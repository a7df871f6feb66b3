/** The chat: what a line means, and a whole dialogue with the SDK's worker on the other side. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { expect, it } from 'vitest'
import { chat } from './chat.ts'
import { HELP, parseLine } from './chat-commands.ts'
import { startManagedAgents } from './managed-agents-double.ts'
import { clientOf, workPath } from './sdk-judge.ts'

const SOON = 15_000

it.each([
  ['$ ls -l', { tool: { name: 'bash', input: { command: 'ls -l' } } }],
  ['$ls', { tool: { name: 'bash', input: { command: 'ls' } } }],
  ['read a/b.txt', { tool: { name: 'read', input: { file_path: 'a/b.txt' } } }],
  ['write a.txt two words', { tool: { name: 'write', input: { file_path: 'a.txt', content: 'two words' } } }],
  ['glob **/*.py', { tool: { name: 'glob', input: { pattern: '**/*.py' } } }],
  ['grep some words', { tool: { name: 'grep', input: { pattern: 'some words' } } }],
  ['hello there', { message: 'hello there' }],
  ['reading is fun', { message: 'reading is fun' }],
  ['$', { wrong: 'A command is missing. Example: $ ls -l' }],
  ['read', { wrong: 'read needs a path.' }],
  ['read a b', { wrong: 'read takes one path without spaces.' }],
  ['write a.txt', { wrong: 'write needs a text after the path. Example: write notes.md hello' }],
  ['grep', { wrong: 'grep needs a pattern.' }],
])('reads the line %j', (line, meaning) => {
  expect(parseLine(line)).toEqual(meaning)
})

it('refuses a line that is too long', () => {
  expect(parseLine('x'.repeat(10_001))).toEqual({
    wrong: 'The line has 10001 characters. The limit is 10000.',
  })
})

it('prints what the tools of a worker answer', async () => {
  const workdir = await mkdtemp(join(tmpdir(), 'managed-agents-'))
  await using double = await startManagedAgents()
  const stop = new AbortController()
  const { environmentId, environmentKey } = double
  const worker = clientOf(double)
    .beta.environments.work.worker({ environmentId, environmentKey, workdir })
    .run(stop.signal)
    .catch((error: unknown) => {
      if (!stop.signal.aborted) throw error
    })
  const input = new PassThrough()
  const printed: string[] = []
  const chatting = chat(double, { input, print: (text) => printed.push(text), stop: stop.signal })
  input.end(
    [
      'write a.txt hello',
      'read a.txt',
      '$ cat a.txt; false',
      'read',
      'what can you do?',
      'glob *.txt',
      '',
    ].join('\n'),
  )
  await chatting
  stop.abort()
  await worker
  await rm(workdir, { recursive: true })
  const answers = printed.filter((text) => !text.startsWith('No worker has answered yet'))
  expect(answers).toHaveLength(7)
  expect(answers[1]).toContain('wrote 5 bytes')
  expect(answers[2]).toContain('hello')
  expect(answers[3]).toMatch(/^\[error\][^]*hello/)
  expect(answers.slice(4, 6)).toEqual(['read needs a path.', HELP])
  expect(answers[6]).toContain('a.txt')
})

it(
  'the program announces itself with one line and ends with its input',
  async () => {
    const main = join(import.meta.dirname, 'main.ts')
    const child = spawn(process.execPath, [main, '--chat'], { stdio: ['pipe', 'pipe', 'inherit'] })
    const ended = once(child, 'exit')
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
    const said = JSON.parse(String((await lines.next()).value)) as Record<string, string>
    expect(said).toEqual({
      double: 'managed-agents',
      origin: expect.stringMatching(/^http:\/\/127\.0\.0\.1:\d+$/),
      environment_id: expect.stringMatching(/^env_/),
      environment_key: expect.stringMatching(/^sk-ant-oat01-/),
      api_key: expect.stringMatching(/^sk-ant-api03-/),
    })
    const stats = `${said['origin']}${workPath(said['environment_id'] ?? '', 'stats')}`
    const headers = { 'x-api-key': said['api_key'] ?? '', 'anthropic-version': '2023-06-01' }
    expect((await fetch(stats, { headers })).status).toBe(200)
    child.stdin.end('what?\n')
    expect(await ended).toEqual([0, null])
  },
  SOON,
)

it(
  'the program ends in order when it is told to',
  async () => {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = once(child, 'exit')
    await once(child.stdout, 'data')
    child.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  },
  SOON,
)
