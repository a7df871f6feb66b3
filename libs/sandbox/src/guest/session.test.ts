/** The host's end with a guest that lies, floods, stalls and dies. The guest is a pair of streams. */
import { PassThrough } from 'node:stream'
import type { Program, RunIo } from '@cofferdam/contract'
import { expect, test, vi } from 'vitest'
import type { GuestSession } from './guest-session.ts'
import { createGuestSession } from './session.ts'

const READY = {
  protocol: 1,
  agentPython: '3.11.2',
  languages: { python: '3.11.2' },
  cgroup: null,
  uidSplit: false,
  ownsPids: true,
  bootMs: 9,
}
const EXIT = {
  code: 0,
  signal: null,
  wallUs: 1500,
  cpuUs: 700,
  maxRssKb: 9000,
  memPeak: null,
  oomKills: null,
  pidsPeak: null,
  pidsHit: null,
  diskFull: false,
  outBytes: 2,
  errBytes: 0,
  outDropped: 0,
  errDropped: 0,
  leftovers: false,
}
const PROGRAM: Program = { type: 'script', language: 'python', source: 'print(1)' }

interface Guest {
  session: GuestSession
  readable: PassThrough
  /** Everything that the host sent so far. */
  sent: () => Buffer
  say: (type: string, payload?: Uint8Array | object) => void
  closed: ReturnType<typeof vi.fn>
}

function guest(isReady = true, features: string[] = []): Guest {
  const readable = new PassThrough()
  const writable = new PassThrough()
  const chunks: Buffer[] = []
  writable.on('data', (chunk: Buffer) => chunks.push(chunk))
  const closed = vi.fn()
  const session = createGuestSession({ readable, writable, onClosed: closed })
  const say: Guest['say'] = (type, payload = Buffer.alloc(0)) => {
    const body = payload instanceof Uint8Array ? payload : Buffer.from(JSON.stringify(payload))
    const head = Buffer.alloc(5)
    head.write(type, 'latin1')
    head.writeUInt32LE(body.length, 1)
    readable.write(Buffer.concat([head, body]))
  }
  if (isReady) say('R', { ...READY, features })
  return { session, readable, sent: () => Buffer.concat(chunks), say, closed }
}

const io = (change: Partial<RunIo> = {}): RunIo => ({
  onOutput: () => {},
  maxOutputBytes: { stdout: 100, stderr: 100 },
  signal: new AbortController().signal,
  ...change,
})

test('binds in one write, passes output on and turns X into evidence', async () => {
  const { session, say, sent } = guest()
  expect(await session.ready()).toMatchObject({ languages: { python: '3.11.2' } })
  await session.write([{ path: 'a.txt', bytes: Buffer.from('A') }])
  expect(sent().length).toBe(0)
  const output: string[] = []
  const running = session.run(
    PROGRAM,
    io({ onOutput: (s, c) => void output.push(`${s}:${Buffer.from(c).toString()}`) }),
    { E: 'v' },
  )
  await vi.waitFor(() => expect(sent().length).toBeGreaterThan(0), 15_000)
  expect(sent().toString('latin1').match(/[JFG]/g)?.at(0)).toBe('J')
  say('O', Buffer.from('1\n'))
  say('V', Buffer.from('[1]'))
  say('X', EXIT)
  expect(await running).toEqual({
    exitCode: 0,
    signal: null,
    usage: {
      cpu_ms: 0.7,
      peak_memory_bytes: 9_216_000,
      disk_bytes: null,
      pids_peak: null,
      read_bytes: null,
      write_bytes: null,
      wall_ms: 1.5,
    },
    outputBytes: { stdout: 2, stderr: 0 },
    outputDropped: { stdout: false, stderr: false },
    oomKills: 0,
    pidsLimitHit: false,
    processesLeft: 0,
    diskLimitHit: false,
    valueJson: '[1]',
  })
  expect(output).toEqual(['stdout:1\n'])
})

test.each<[string, (g: Guest) => void]>([
  ['an unknown frame', (g) => g.say('Q')],
  ['a second R', (g) => g.say('R', READY)],
  ['output beyond the agreed bytes', (g) => g.say('O', Buffer.alloc(101))],
  ['output without bytes', (g) => g.say('O')],
  ['a file that nobody asked for', (g) => g.say('F', Buffer.from('x'))],
  ['a pong without a ping', (g) => g.say('A', Buffer.alloc(40))],
  ['a value twice', (g) => (g.say('V', Buffer.from('1')), g.say('V', Buffer.from('2')))],
  ['a value that is too large', (g) => g.say('V', Buffer.alloc(33_000, 49))],
  ['X that is no JSON', (g) => g.say('X', Buffer.from('{'))],
  ['X with code and signal', (g) => g.say('X', { ...EXIT, signal: 'SIGKILL' })],
  ['X with a negative count', (g) => g.say('X', { ...EXIT, outBytes: -1 })],
  ['X with an odd signal', (g) => g.say('X', { ...EXIT, code: null, signal: 'SIGFOO; DROP' })],
  ['X with more fields', (g) => g.say('X', { ...EXIT, verdict: 'ok' })],
  [
    'a cap reached three times',
    (g) => [79, 69, 1].forEach((s) => g.say('T', Buffer.from([s, 0, 0, 0, 0, 0, 0, 0, 0]))),
  ],
])('ends a run with protocol_violation for %s', async (_name, lie) => {
  const g = guest()
  const running = g.session.run(PROGRAM, io(), {})
  running.catch(() => {})
  await vi.waitFor(() => expect(g.sent().length).toBeGreaterThan(0), 15_000)
  lie(g)
  await expect(running).rejects.toMatchObject({ code: 'protocol_violation' })
  expect(g.closed).toHaveBeenCalledTimes(1)
  expect(g.readable.destroyed).toBe(true)
})

test('accepts no frame before R and no other form of R', async () => {
  const early = guest(false)
  early.say('O', Buffer.from('x'))
  await expect(early.session.ready()).rejects.toMatchObject({ code: 'protocol_violation' })
  const odd = guest(false)
  odd.say('R', { ...READY, protocol: 2 })
  await expect(odd.session.ready()).rejects.toMatchObject({ code: 'protocol_violation' })
})

test('reads nothing while the caller has not taken output, so a flood stays in the guest', async () => {
  const { session, say, readable } = guest()
  const gate = Promise.withResolvers<void>()
  let seen = 0
  const running = session.run(
    PROGRAM,
    io({
      maxOutputBytes: { stdout: 1 << 30, stderr: 0 },
      onOutput: (_s, chunk) => {
        seen += chunk.length
        return gate.promise
      },
    }),
    {},
  )
  const block = Buffer.alloc(60_000)
  for (let n = 0; n < 100; n++) say('O', block)
  await vi.waitFor(() => expect(seen).toBe(60_000), 15_000)
  // Twenty turns of the event loop later, the caller still has only the first block. The stream holds the
  // rest.
  for (let n = 0; n < 20; n++) await new Promise(setImmediate)
  expect(seen).toBe(60_000)
  expect(readable.readableLength + readable.writableLength).toBeGreaterThan(5_000_000)
  gate.resolve()
  say('X', { ...EXIT, outBytes: 6_000_000 })
  expect((await running).outputBytes.stdout).toBe(6_000_000)
  expect(seen).toBe(6_000_000)
})

test('rejects pending and later calls with sandbox_lost if the channel ends', async () => {
  const { session, readable, closed } = guest()
  const running = session.run(PROGRAM, io(), {})
  running.catch(() => {})
  const usage = session.usage()
  usage.catch(() => {})
  readable.end()
  await expect(running).rejects.toMatchObject({ code: 'sandbox_lost' })
  await expect(usage).rejects.toMatchObject({ code: 'sandbox_lost' })
  await expect(session.write([])).rejects.toMatchObject({ code: 'sandbox_lost' })
  await expect(session.read('a', 1)).rejects.toMatchObject({ code: 'sandbox_lost' })
  session.interrupt(1000)
  session.close()
  expect(closed).toHaveBeenCalledTimes(1)
})

test('accepts an X from before the channel’s end, however slowly output is taken', async () => {
  const { session, say, readable } = guest()
  const running = session.run(
    PROGRAM,
    io({ onOutput: () => new Promise((resolve) => setTimeout(resolve, 20)) }),
    {},
  )
  say('O', Buffer.from('1\n'))
  say('X', EXIT)
  readable.end()
  expect((await running).exitCode).toBe(0)
})

test('stops waiting with the signal’s reason', async () => {
  const { session } = guest()
  const stop = new AbortController()
  const running = session.run(PROGRAM, io({ signal: stop.signal }), {})
  const reason = new Error('enough')
  stop.abort(reason)
  await expect(running).rejects.toBe(reason)
  await expect(session.run(PROGRAM, io({ signal: stop.signal }), {})).rejects.toBe(reason)
})

test('refuses a listing with more entries or bytes than requested', async () => {
  const g = guest()
  const listing = g.session.list(['**'], 1)
  listing.catch(() => {})
  await vi.waitFor(() => expect(g.sent().length).toBeGreaterThan(0), 15_000)
  const entry = Buffer.concat([Buffer.alloc(8), Buffer.from([1, 0]), Buffer.from('a')])
  g.say('F', Buffer.concat([entry, entry]))
  g.say('Z', Buffer.from([0]))
  await expect(listing).rejects.toMatchObject({ code: 'protocol_violation' })
})

test.each([
  [1, 'not_found'],
  [2, 'payload_too_large'],
  [3, 'invalid_request'],
  [4, 'payload_too_large'],
  [5, 'sandbox_lost'],
  [77, 'protocol_violation'],
])('turns status %i of Z into %s', async (status, code) => {
  const g = guest()
  const reading = g.session.read('a', 10)
  reading.catch(() => {})
  await vi.waitFor(() => expect(g.sent().length).toBeGreaterThan(0), 15_000)
  g.say('Z', Buffer.from([status]))
  await expect(reading).rejects.toMatchObject({ code })
})

test('destroys the session if an agent cannot prove that a cell is clean', async () => {
  const g = guest()
  const cleaning = g.session.clean('none')
  cleaning.catch(() => {})
  await vi.waitFor(() => expect(g.sent().toString('latin1')).toBe('K\x01\0\0\0n'), 15_000)
  g.say('Z', Buffer.from([3]))
  await expect(cleaning).rejects.toMatchObject({ code: 'sandbox_lost' })
  expect(g.closed).toHaveBeenCalledTimes(1)
})

test('cleans after an abandoned run, and accepts only an answer after the run’s end', async () => {
  const g = guest()
  const stop = new AbortController()
  const running = g.session.run(PROGRAM, io({ signal: stop.signal }), {}, { keepInterpreter: true })
  running.catch(() => {})
  await vi.waitFor(() => expect(g.sent().toString('latin1')).toContain('"keep":true'), 15_000)
  stop.abort(new Error('enough'))
  let isClean = false
  const cleaning = g.session.clean('files').then(() => (isClean = true))
  await vi.waitFor(() => expect(g.sent().toString('latin1')).toContain('K\x01\0\0\0f'), 15_000)
  g.say('X', { ...EXIT, alive: true })
  await vi.waitFor(() => expect(g.session.interpreterAlive()).toBe(true), 15_000)
  expect(isClean).toBe(false)
  g.say('Z', Buffer.from([0]))
  await cleaning
  expect(g.closed).not.toHaveBeenCalled()
})

test('tells the agent to spare other processes, and refuses that before a program begins if it cannot', async () => {
  const kept = { keepInterpreter: true, keepProcesses: true }
  const old = guest()
  await expect(old.session.run(PROGRAM, io(), {}, kept)).rejects.toMatchObject({ code: 'capability_missing' })
  expect(old.sent().length).toBe(0)
  const able = guest(true, ['processes'])
  able.session.run({ type: 'command', argv: ['true'] }, io(), {}, kept).catch(() => {})
  await vi.waitFor(() => expect(able.sent().toString('latin1')).toContain('"leave":true'), 15_000)
  expect(able.sent().toString('latin1')).not.toContain('"keep"')
  able.say('X', EXIT)
  const cleaning = able.session.clean('processes')
  await vi.waitFor(() => expect(able.sent().toString('latin1')).toContain('K\x01\0\0\0p'), 15_000)
  able.say('Z', Buffer.from([0, 0]))
  expect(await cleaning).toBe(0)
})

test('forgets queued files when a cell is cleaned', async () => {
  const g = guest()
  await g.session.write([{ path: 'secret.txt', bytes: Buffer.from('A') }])
  const cleaning = g.session.clean('none')
  await vi.waitFor(() => expect(g.sent().length).toBeGreaterThan(0), 15_000)
  g.say('Z', Buffer.from([0]))
  await cleaning
  g.session.run(PROGRAM, io(), {}).catch(() => {})
  await vi.waitFor(() => expect(g.sent().toString('latin1')).toContain('main.py'), 15_000)
  expect(g.sent().toString('latin1')).not.toContain('secret.txt')
})

test('refuses unsupported programs and paths that lead outside, before it sends anything', async () => {
  const { session, sent } = guest()
  await expect(session.run({ type: 'install' }, io(), {})).rejects.toMatchObject({
    code: 'capability_missing',
  })
  await session.write([{ path: '../x', bytes: Buffer.alloc(1) }])
  await expect(session.run(PROGRAM, io(), {})).rejects.toMatchObject({ code: 'invalid_request' })
  expect(sent().length).toBe(0)
})
