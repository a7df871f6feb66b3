import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { connectVsock } from './vsock.ts'

let folder: string
let path: string
let server: Server | null
const sockets = new Set<Socket>()

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'cofferdam-vsock-'))
  path = join(folder, 'v.sock')
  server = null
})
afterEach(async () => {
  for (const socket of sockets) socket.destroy()
  sockets.clear()
  server?.close()
  await rm(folder, { recursive: true })
})

/** Calls `answer` for each connection, with its first bytes and its number. */
const answering = (answer: (socket: Socket, first: string, number: number) => void): Promise<void> => {
  let number = 0
  const listening = (server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    number += 1
    const mine = number
    socket.once('data', (first: Buffer) => answer(socket, first.toString('latin1'), mine))
  }))
  return new Promise((resolve) => listening.listen(path, resolve))
}
const limits = { withinMs: 60_000, answerMs: 60_000, signal: new AbortController().signal }

test('sends one line, and takes what came with the answer as the begin of the stream', async () => {
  const lines: string[] = []
  await answering((socket, first) => {
    lines.push(first)
    socket.end('OK 1073741824\nhello ')
  })
  const stream = await connectVsock(path, 5005, limits)
  expect(lines).toEqual(['CONNECT 5005\n'])
  expect(await text(stream)).toBe('hello ')
})

test('leaves the stream to whoever reads it: by data, readable or iteration, at once or later', async () => {
  await answering((socket) => {
    socket.write('OK 7\nfirst ')
    socket.end('last')
  })
  const ways: ((stream: Duplex) => Promise<string>)[] = [
    text,
    (stream) =>
      new Promise((resolve) => {
        let said = ''
        stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
        stream.once('end', () => resolve(said))
      }),
    async (stream) => {
      await new Promise((resolve) => setImmediate(resolve))
      let said = ''
      stream.on('data', (chunk: Buffer) => (said += chunk.toString()))
      await once(stream, 'end')
      return said
    },
    async (stream) => {
      let said = ''
      stream.on('readable', () => (said += String(stream.read() ?? '')))
      await once(stream, 'end')
      return said
    },
  ]
  for (const way of ways) expect(await way(await connectVsock(path, 5005, limits))).toBe('first last')
})

test('takes an answer that comes byte by byte', async () => {
  await answering((socket) => {
    const bytes = 'OK 7\nrest'.split('')
    const next = (): void => {
      const byte = bytes.shift()
      if (byte === undefined) socket.end()
      else socket.write(byte, () => setImmediate(next))
    }
    next()
  })
  expect(await text(await connectVsock(path, 5005, limits))).toBe('rest')
})

test('tries again while it is closed without a word, and before anybody listens', async () => {
  const connecting = connectVsock(path, 5005, limits)
  await answering((socket, _first, number) => {
    if (number < 4) socket.destroy()
    else socket.end('OK 7\nat last')
  })
  expect(await text(await connecting)).toBe('at last')
})

test.each([
  ['junk', (socket: Socket) => void socket.write('HTTP/1.1 200 OK\r\n\r\n')],
  ['another word', (socket: Socket) => void socket.write('OK\n')],
  ['too much', (socket: Socket) => void socket.write('O'.repeat(4096))],
  ['half a line', (socket: Socket) => void socket.end('OK 10737')],
])('does not try again after %s', async (_what, answer) => {
  let tries = 0
  await answering((socket) => {
    tries += 1
    answer(socket)
  })
  await expect(connectVsock(path, 5005, limits)).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  expect(tries).toBe(1)
  await expect.poll(() => [...sockets].every(({ destroyed }) => destroyed), { timeout: 60_000 }).toBe(true)
})

test('gives up on silence, and when nobody ever listens', async () => {
  const short = { ...limits, withinMs: 50, answerMs: 10 }
  await expect(connectVsock(path, 5005, short)).rejects.toThrow(/not reached within 50 ms: ENOENT/)
  await answering(() => {})
  await expect(connectVsock(path, 5005, short)).rejects.toThrow(/not reached within 50 ms: no answer/)
})

test('stops with its signal, and leaves no connection', async () => {
  await answering(() => {})
  const stop = new AbortController()
  const connecting = connectVsock(path, 5005, { ...limits, signal: stop.signal })
  await expect.poll(() => sockets.size, { timeout: 60_000 }).toBe(1)
  const reason = new Error('enough')
  stop.abort(reason)
  await expect(connecting).rejects.toBe(reason)
  await expect.poll(() => [...sockets].every(({ destroyed }) => destroyed), { timeout: 60_000 }).toBe(true)
})
