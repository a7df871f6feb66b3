/** Output of AgentCore's programs while they run: prompt, each byte once, and no secret in any piece. */
import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { globSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { DEFAULT_LIMITS, type Exit, type Program, type Sandbox, type SandboxSpec } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest'
import { createLiveLines } from '../src/live-lines.ts'
import { describeAgentcore, diskOf, invoke } from './at-double.ts'
import { redisSessions, type TestSessions, python } from '@cofferdam/backend-remote/testing'

const CELL = fileURLToPath(new URL('../src/', import.meta.url))
/** Prints that it is up, and ends when the file `go` exists. */
const HELD = `import os, sys, time
print("up ✓", flush=True)
while not os.path.exists("go"): time.sleep(0.01)
os.write(1, "é".encode()[:1])
os.write(1, "é".encode()[1:] + b"\\xff\\n")
print("err", file=sys.stderr)`
const SAID = Buffer.concat([Buffer.from('up ✓\né'), Buffer.from([0xff]), Buffer.from('\n')])

describeAgentcore('agentcore’s live output', (at) => {
  let sessions: TestSessions
  beforeAll(async () => {
    sessions = await redisSessions()
  })
  afterAll(async () => {
    await sessions[Symbol.asyncDispose]()
  })

  const open = async (program: Program, change: Partial<SandboxSpec> = {}, config = {}): Promise<Sandbox> =>
    await at.open(program, change, at.backend(config, { sessions }))

  /** Runs the program. Calls `onStdout` with the whole stdout so far at each piece. */
  async function run(
    sandbox: Sandbox,
    program: Program,
    onStdout: (soFar: Buffer) => void = () => undefined,
  ): Promise<{ exit: Exit; stdout: Buffer; stderr: string; pieces: string[] }> {
    const said = { stdout: Buffer.alloc(0), stderr: Buffer.alloc(0) }
    const pieces: string[] = []
    const exit = await sandbox.run(program, {
      onOutput(stream, chunk) {
        pieces.push(Buffer.from(chunk).toString('latin1'))
        said[stream] = Buffer.concat([said[stream], chunk])
        if (stream === 'stdout') onStdout(said.stdout)
      },
      maxOutputBytes: { stdout: 8 << 20, stderr: 8 << 20 },
      signal: AbortSignal.timeout(30_000),
    })
    return { exit, stdout: said.stdout, stderr: said.stderr.toString(), pieces }
  }

  /** Creates `go` in the sandbox's work directory. */
  function letGo(sandbox: Sandbox): void {
    const cwd = diskOf(at.sessionOf(sandbox))
    for (const work of globSync('home/.cofferdam-*/work', { cwd })) writeFileSync(join(cwd, work, 'go'), '')
  }

  const session = (): Partial<SandboxSpec> => ({
    reuse: 'session',
    session: { key: randomUUID(), scope: 'interpreter', idleMs: null },
  })
  const shell: Program = {
    type: 'script',
    language: 'bash',
    source: `echo "up ✓"; until [ -e go ]; do sleep 0.01; done; printf '\\303'; printf '\\251\\377\\n'; echo err >&2`,
  }

  it.each<[string, Program, Partial<SandboxSpec>, object]>([
    ['a script', python(HELD), {}, {}],
    ['a command', shell, {}, {}],
    ['a script of a session', python(HELD), session(), {}],
    ['a script in the background', python(HELD), {}, { call_max_ms: 1000 }],
  ])('arrives before the end of %s, each byte once', async (_what, program, change, config) => {
    at.double.previews = true
    const sandbox = await open(program, change, config)
    // The program ends only because its output arrived.
    const { exit, stdout, stderr } = await run(sandbox, program, (soFar) => {
      if (soFar.includes('up ✓\n')) letGo(sandbox)
    })
    expect({ code: exit.exitCode, stdout: stdout.toString('latin1'), stderr }).toEqual({
      code: 0,
      stdout: SAID.toString('latin1'),
      stderr: 'err\n',
    })
    expect(exit.outputBytes).toEqual({ stdout: SAID.length, stderr: 4 })
    sandbox.retire?.()
  })

  it.each([
    invoke('cut-after'),
    invoke('truncated'),
    invoke('empty'),
    invoke('exception', { after: 1 }),
    invoke('duplicate'),
    invoke('growing'),
    invoke('split'),
    invoke('unknown-event'),
  ])('comes once although its stream ends with $kind', async (fault) => {
    const program = python('import time\nfor n in range(4):\n    print("é" * 5000, n, flush=True)')
    const expected = [0, 1, 2, 3].map((n) => `${'é'.repeat(5000)} ${n}\n`).join('')
    for (const previews of [true, false]) {
      at.double.previews = previews
      const sandbox = await open(program)
      at.double.fault({ ...fault })
      expect((await run(sandbox, program)).stdout.toString()).toBe(expected)
      expect(at.double.faultsLeft).toEqual([])
    }
  })

  it('is the whole output of a program that kills its interpreter', async () => {
    at.double.previews = true
    const program = python(
      'import os, signal, time\nprint("last words", flush=True)\nwhile not os.path.exists("go"): time.sleep(0.01)\nos.kill(os.getpid(), signal.SIGKILL)',
    )
    const sandbox = await open(program, session())
    const { exit, stdout } = await run(sandbox, program, () => letGo(sandbox))
    expect({ code: exit.exitCode, stdout: stdout.toString(), bytes: exit.outputBytes.stdout }).toEqual({
      code: 137,
      stdout: 'last words\n',
      bytes: 11,
    })
  })

  it('contains no part of a secret printed in pieces, and keeps the stream’s limit', async () => {
    at.double.previews = true
    const program = python(`import os, time
token = os.environ["API_TOKEN"]
for n in range(0, len(token), 7):
    print(token[n:n + 7], end="", flush=True)
    time.sleep(0.12)
print("\\nghp_" + "a1" * 9, end="", flush=True)
time.sleep(0.12)
print("b2" * 9)`)
    const token = 'zq-secret-of-the-tenant-0042'
    const sandbox = await open(program, { env: { API_TOKEN: token } })
    const { stdout, pieces } = await run(sandbox, program)
    expect(stdout.toString()).toBe('<redacted>\n<redacted>\n')
    expect(pieces.join('')).not.toMatch(/zq|ghp|b2/)
  })

  it('stops if nobody reads it, and a program of a session does not wait for it', async () => {
    const limits = { ...DEFAULT_LIMITS, soft_timeout_ms: 20_000, hard_timeout_ms: 25_000 }
    const program = python('import sys\nfor n in range(300): sys.stdout.write("x" * 10_000)')
    const sandbox = await open(program, { ...session(), limits })
    const { exit, stdout } = await run(sandbox, program)
    expect([exit.exitCode, stdout.length]).toEqual([0, 3_000_000])
    sandbox.retire?.()
  })
})

describe('lines of live output', () => {
  const line = (number: number, text: string, nonce = 'abc'): string =>
    `@cofferdam-live:${nonce}:${number}:stdout:${Buffer.from(text).toString('base64')}@\r\n`
  const told = (lines: ReturnType<typeof createLiveLines>, texts: readonly string[]): string =>
    texts
      .flatMap((text) => lines.take('text', text))
      .map(({ bytes }) => bytes.toString())
      .join('|')

  test('are found among other text, split anywhere, and reported once', () => {
    const all = `noise@${line(0, 'a')}@cofferdam-live:abc:${line(1, 'b')}${line(0, 'a')}${line(1, 'b')}${line(2, 'c')}`
    for (const size of [1, 7, all.length]) {
      const lines = createLiveLines('abc')
      const texts = Array.from({ length: Math.ceil(all.length / size) }, (_, at) =>
        all.slice(at * size, (at + 1) * size),
      )
      expect(told(lines, texts)).toBe('a|b|c')
      expect(lines.take('stdout', all)).toEqual([])
    }
  })

  test('are ignored if they belong to another request or follow a missing line', () => {
    const lines = createLiveLines('abc')
    expect(told(lines, [line(0, 'forged', 'abd'), line(0, 'a'), line(2, 'c')])).toBe('a')
    expect(
      lines.take('stdout', line(0, 'a') + line(1, 'b') + line(2, 'c')).map(({ bytes }) => String(bytes)),
    ).toEqual(['b', 'c'])
  })
})

test('redacts a stream in pieces of any size like the whole text', () => {
  const checked = execFileSync(
    'python3',
    [
      '-B',
      '-c',
      `
import random, sys
sys.path.insert(0, sys.argv[1])
from cell.redact import Redaction, Redactor
random.seed(5)
redactor = Redactor()
for secret in ("s3cret-value-of-tenant", "s3cret-value-of-tenant/and-one-that-begins-with-it", "tenant/and-overlaps"):
    redactor.register(secret)
parts = [b"plain text e ", b"s3cret-value-of-tenant ", b"s3cret-value-of-tenant/and-one-that-begins-with-it ", b"s3cret-value-of-tenant/and-o", b"ghp_" + b"a1" * 18 + b" ", b"Bearer abcdefghijklmnopqrstuvwxyz012345\\n", b"AKIAABCDEFGHIJKLMNOP ",
         b"eyJhbGciOiJIUzI1NiIsInR5.eyJzdWIi.abcdefghijklmnopqrstuv ", b"-----BEGIN RSA PRIVATE KEY-----\\nMIIB\\n-----END RSA PRIVATE KEY-----\\n",
         b"----- progress -----\\n", b"-----BEGIN CERTIFICATE-----\\nMII\\n-----END CERTIFICATE-----\\n", b"xoxb-1234567890-abc\\n"]
for _ in range(2000):
    data = b"".join(random.choice(parts) for _ in range(6))
    stream, said, at = Redaction(redactor), b"", 0
    while at < len(data):
        size = random.choice([1, 2, 7, 60])
        said, at = said + stream.take(data[at : at + size]), at + size
    assert said + stream.end() == redactor.redact(data), data
print("checked")
`,
      CELL,
    ],
    { encoding: 'utf8' },
  )
  expect(checked).toBe('checked\n')
})

test('a program that fills the disk loses none of its output', () => {
  const kept = execFileSync(
    'python3',
    [
      '-B',
      '-c',
      `
import sys
sys.path.insert(0, sys.argv[1])
from cell.capture import Capture
from cell.live import Live
from cell.redact import Redactor
capture = Capture("full", 100, "/dev", Redactor(), Live("nonce", 0, None))
capture.take(b"said ")
capture.take(b"it all")
print(capture.close().decode())
`,
      CELL,
    ],
    { encoding: 'utf8' },
  )
  expect(kept).toBe('said it all\n')
})
