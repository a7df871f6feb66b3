/** The worker's end of connections with a guest that forges frames. The guest is a pair of streams. */
import { PassThrough, type Duplex } from 'node:stream'
import { expect, test, vi } from 'vitest'
import type { GuestSession } from './guest-session.ts'
import { createGuestSession } from './session.ts'

const READY = {
  protocol: 1,
  agentPython: '3.11.2',
  languages: {},
  cgroup: null,
  uidSplit: false,
  ownsPids: true,
  features: ['connections'],
  bootMs: 9,
}
const EXIT = {
  code: 0,
  signal: null,
  wallUs: 1,
  cpuUs: null,
  maxRssKb: 1,
  memPeak: null,
  oomKills: null,
  pidsPeak: null,
  pidsHit: null,
  diskFull: false,
  outBytes: 0,
  errBytes: 0,
  outDropped: 0,
  errDropped: 0,
  leftovers: false,
}
const WINDOW = 256 * 1024

interface Guest {
  session: GuestSession
  connections: Duplex[]
  running: Promise<unknown>
  sent: () => Buffer
  say: (type: string, payload?: Uint8Array | object) => void
  toHost: PassThrough
  toAgent: PassThrough
}

const u32 = (...values: number[]): Buffer => {
  const bytes = Buffer.alloc(4 * values.length)
  values.forEach((value, index) => bytes.writeUInt32LE(value, index * 4))
  return bytes
}
const frame = (type: string, body: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(type), u32(body.length), body])
const data = (id: number, bytes: number): Buffer => Buffer.concat([u32(id), Buffer.alloc(bytes)])
const quit = (id: number, how: number): Buffer => Buffer.concat([u32(id), Buffer.of(how)])

async function guest(
  options: { reads?: boolean; mayConnect?: boolean; refuses?: boolean } = {},
): Promise<Guest> {
  const toHost = new PassThrough()
  const toAgent = new PassThrough()
  const chunks: Buffer[] = []
  if (options.reads !== false) toAgent.on('data', (chunk: Buffer) => chunks.push(chunk))
  const session = createGuestSession({ readable: toHost, writable: toAgent })
  const say: Guest['say'] = (type, payload = Buffer.alloc(0)) => {
    toHost.write(frame(type, payload instanceof Uint8Array ? payload : Buffer.from(JSON.stringify(payload))))
  }
  say('R', READY)
  await session.ready()
  const connections: Duplex[] = []
  const onConnection = (one: Duplex): void => {
    connections.push(one)
    if (options.refuses === true) one.destroy()
  }
  const running = session.run(
    { type: 'command', argv: ['x'] },
    {
      onOutput: () => {},
      maxOutputBytes: { stdout: 10, stderr: 10 },
      signal: new AbortController().signal,
      ...(options.mayConnect === false ? {} : { onConnection }),
    },
    {},
  )
  running.catch(() => {})
  await vi.waitFor(
    () => expect(toAgent.readableLength + Buffer.concat(chunks).length).toBeGreaterThan(0),
    15_000,
  )
  return { session, connections, running, sent: () => Buffer.concat(chunks), say, toHost, toAgent }
}

const open = (g: Guest, ids: number): void => {
  for (let id = 1; id <= ids; id++) g.say('N', u32(id))
}

test.each<[string, (g: Guest) => void]>([
  ['an id that is not the next one', (g) => g.say('N', u32(2))],
  ['id 0', (g) => g.say('N', u32(0))],
  ['an id that is open', (g) => (open(g, 1), g.say('N', u32(1)))],
  ['an id that was open', (g) => (open(g, 1), g.say('Q', quit(1, 2)), g.say('N', u32(1)))],
  ['a 65th connection', (g) => open(g, 65)],
  ['a connection with something more', (g) => g.say('N', u32(1, 1))],
  ['no id', (g) => g.say('N', Buffer.from([1, 0]))],
  ['data for a connection that never was', (g) => g.say('D', data(1, 1))],
  ['credit for a connection that never was', (g) => g.say('W', u32(1, 1))],
  ['an end of a connection that never was', (g) => g.say('Q', quit(1, 0))],
  ['data for id 0', (g) => g.say('D', data(0, 1))],
  ['data without bytes', (g) => (open(g, 1), g.say('D', u32(1)))],
  [
    'data beyond the credit',
    (g) => {
      open(g, 1)
      for (let n = 0; n < 4; n++) g.say('D', data(1, 65_532))
      g.say('D', data(1, WINDOW - 4 * 65_532 + 1))
    },
  ],
  ['data after its end', (g) => (open(g, 1), g.say('Q', quit(1, 0)), g.say('D', data(1, 1)))],
  ['two ends', (g) => (open(g, 1), g.say('Q', quit(1, 0)), g.say('Q', quit(1, 0)))],
  ['an end that only the worker may say', (g) => (open(g, 1), g.say('Q', quit(1, 1)))],
  ['an unknown end', (g) => (open(g, 1), g.say('Q', quit(1, 7)))],
  ['an end with more', (g) => (open(g, 1), g.say('Q', Buffer.concat([quit(1, 0), Buffer.of(0)])))],
  ['credit that nothing was sent for', (g) => (open(g, 1), g.say('W', u32(1, 1)))],
  ['credit of nothing', (g) => (open(g, 1), g.say('W', u32(1, 0)))],
  ['credit in another shape', (g) => (open(g, 1), g.say('W', u32(1)))],
])('ends the session for %s', async (_name, forge) => {
  const g = await guest()
  forge(g)
  await expect(g.running).rejects.toMatchObject({ code: 'protocol_violation' })
  expect(g.connections.every((connection) => connection.destroyed)).toBe(true)
})

test('ends the session for a connection between runs or in a run that may not connect', async () => {
  const may = await guest({ mayConnect: false })
  may.say('N', u32(1))
  await expect(may.running).rejects.toMatchObject({ code: 'protocol_violation' })

  const after = await guest()
  open(after, 1)
  after.say('X', EXIT)
  await after.running
  expect(after.connections[0]?.destroyed).toBe(true)
  expect(after.session.closed).toBe(false)
  after.say('D', data(1, 1))
  await vi.waitFor(() => expect(after.session.closed).toBe(true), 15_000)
})

test('accepts exactly the window, and gives no credit until somebody reads', async () => {
  const g = await guest()
  open(g, 1)
  const before = g.sent().length
  for (let n = 0; n < 4; n++) g.say('D', data(1, 65_532))
  g.say('D', data(1, WINDOW - 4 * 65_532))
  await vi.waitFor(() => expect(g.connections).toHaveLength(1), 15_000)
  g.say('P')
  await new Promise((resolve) => setImmediate(resolve))
  expect(g.sent().length).toBe(before)
})

test('ignores frames that crossed its end of the connection, which no longer counts', async () => {
  const g = await guest()
  open(g, 64)
  await vi.waitFor(() => expect(g.connections).toHaveLength(64), 15_000)
  g.connections[0]!.destroy()
  await vi.waitFor(() => expect(g.sent().includes(frame('Q', quit(1, 1)))).toBe(true), 15_000)
  g.say('D', data(1, 1000))
  g.say('W', u32(1, 5))
  g.say('Q', quit(1, 0))
  g.say('N', u32(65))
  await vi.waitFor(() => expect(g.connections).toHaveLength(65), 15_000)
  expect(g.session.closed).toBe(false)
})

test('sends no more than the credit, and the rest with more credit', async () => {
  const g = await guest()
  open(g, 1)
  await vi.waitFor(() => expect(g.connections).toHaveLength(1), 15_000)
  const before = g.sent().length
  g.connections[0]!.end(Buffer.alloc(WINDOW + 100))
  // Four frames of 64 KiB with head and ID.
  await vi.waitFor(() => expect(g.sent().length - before).toBe(WINDOW + 4 * 9), 15_000)
  g.say('W', u32(1, 100))
  const rest = 100 + 9 + frame('Q', quit(1, 0)).length
  await vi.waitFor(() => expect(g.sent().length - before).toBe(WINDOW + 4 * 9 + rest), 15_000)
})

test('buffers a flood of unread one-byte frames compactly', async () => {
  const g = await guest()
  open(g, 64)
  const byte = Buffer.concat(Array.from({ length: 6000 }, () => frame('D', data(1, 1))))
  const one = frame('D', data(1, 1)).length
  globalThis.gc?.()
  const before = process.memoryUsage().rss
  for (let id = 1; id <= 64; id++) {
    for (let at = 0; at < byte.length; at += one) byte.writeUInt32LE(id, at + 5)
    for (let n = 0; n < 20; n++)
      if (!g.toHost.write(Buffer.from(byte))) await new Promise((resolve) => g.toHost.once('drain', resolve))
  }
  g.say('N', u32(65))
  await expect(g.running).rejects.toMatchObject({ code: 'protocol_violation' })
  // 64 × 120,000 bytes are 8 MB; as separate buffers they would be a GB.
  expect(process.memoryUsage().rss - before).toBeLessThan(128 << 20)
}, 30_000)

test('stops reading a guest that causes answers but does not read them', async () => {
  const g = await guest({ reads: false, refuses: true })
  // Until the worker accepts no more, and a MiB of frames waits on the guest's side.
  for (let id = 1; g.toHost.writableLength < 1 << 20; id++) {
    expect(id).toBeLessThan(500_000)
    g.say('N', u32(id))
    if (id % 50 === 0) await new Promise((resolve) => setImmediate(resolve))
  }
  expect(g.connections.length).toBeGreaterThan(1000)
  expect(g.connections.length).toBeLessThan(60_000)
  expect(g.toAgent.writableLength).toBeLessThan(400 * 1024)
  expect(g.session.closed).toBe(false)
  g.session.close()
}, 30_000)

test('refuses a run that may connect if the agent does not support connections', async () => {
  const { features: _none, ...older } = READY
  const toHost = new PassThrough()
  const session = createGuestSession({ readable: toHost, writable: new PassThrough() })
  toHost.write(frame('R', Buffer.from(JSON.stringify(older))))
  const io = {
    onOutput: () => {},
    maxOutputBytes: { stdout: 1, stderr: 1 },
    signal: new AbortController().signal,
    onConnection: () => {},
  }
  await expect(session.run({ type: 'command', argv: ['x'] }, io, {})).rejects.toMatchObject({
    code: 'capability_missing',
  })
  session.close()
})
