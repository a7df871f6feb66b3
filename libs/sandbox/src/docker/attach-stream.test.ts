import { Duplex } from 'node:stream'
import { expect, test } from 'vitest'
import { openAttachStream } from './attach-stream.ts'

/** The daemon's side of a hijacked connection. `push` sends to the worker; `received`: the worker's data. */
function connection(): { socket: Duplex; received: Buffer[]; reads: () => number } {
  const received: Buffer[] = []
  let reads = 0
  const socket = new Duplex({
    read() {
      reads += 1
    },
    write(chunk: Buffer, _encoding, done) {
      received.push(chunk)
      done()
    },
  })
  return { socket, received, reads: () => reads }
}

function packed(stream: 1 | 2, payload: string | Buffer): Buffer {
  const body = Buffer.from(payload)
  const head = Buffer.alloc(8)
  head[0] = stream
  head.writeUInt32BE(body.length, 4)
  return Buffer.concat([head, body])
}

test('extracts stdout from the packets and keeps stderr for error messages', async () => {
  const { socket } = connection()
  const attached = openAttachStream(socket)
  socket.push(Buffer.concat([packed(1, 'ab'), packed(2, 'agent: oops\n'), packed(1, 'cd')]))
  socket.push(null)
  expect(Buffer.concat(await attached.readable.toArray()).toString()).toBe('abcd')
  expect(attached.stderrTail()).toBe('agent: oops')
})

test('reassembles packets that arrive as single bytes', async () => {
  const { socket } = connection()
  const attached = openAttachStream(socket)
  const bytes = Buffer.concat([packed(1, 'hello '), packed(2, 'x'), packed(1, ''), packed(1, 'world')])
  for (const byte of bytes) socket.push(Buffer.from([byte]))
  socket.push(null)
  expect(Buffer.concat(await attached.readable.toArray()).toString()).toBe('hello world')
})

test('keeps only the last 4 KiB of stderr', async () => {
  const { socket } = connection()
  const attached = openAttachStream(socket)
  for (let n = 0; n < 100; n += 1) socket.push(packed(2, 'y'.repeat(1000)))
  socket.push(packed(2, 'the end'))
  socket.push(null)
  await attached.readable.toArray()
  expect(attached.stderrTail()).toHaveLength(4096)
  expect(attached.stderrTail().endsWith('the end')).toBe(true)
})

test('stops reading the connection while nobody reads stdout', async () => {
  const total = 400
  let sent = 0
  const chunk = packed(1, Buffer.alloc(16_384, 'z'))
  const socket = new Duplex({
    // A program with much output: sends one packet per read.
    read() {
      sent += 1
      this.push(sent <= total ? chunk : null)
    },
    write(_chunk, _encoding, done) {
      done()
    },
  })
  const attached = openAttachStream(socket)
  attached.readable.once('readable', () => {})
  await new Promise((resolve) => setImmediate(resolve))
  await new Promise((resolve) => setImmediate(resolve))
  // 64 KiB in our reader and 64 KiB in the socket's, in packets of 16 KiB, and a few in flight.
  expect(sent).toBeLessThan(20)
  let got = 0
  for await (const bytes of attached.readable) got += (bytes as Buffer).length
  expect(got).toBe(total * 16_384)
})

test('ends when the connection breaks', async () => {
  const { socket } = connection()
  const attached = openAttachStream(socket)
  socket.push(packed(1, 'partial'))
  const all = attached.readable.toArray()
  await new Promise((resolve) => setImmediate(resolve))
  socket.destroy(new Error('ECONNRESET'))
  expect(Buffer.concat(await all).toString()).toBe('partial')
})
