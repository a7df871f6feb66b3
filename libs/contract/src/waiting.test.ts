import { once } from 'node:events'
import { connect, createServer, type AddressInfo } from 'node:net'
import { expect, it, vi } from 'vitest'
import { inTime, unlessAborted } from './waiting.ts'

const never = (): Promise<never> => new Promise(() => {})

it('a wait ends with the reason of the signal, whether it aborts before or later', async () => {
  const stop = new AbortController()
  const waiting = unlessAborted(never(), stop.signal)
  const reason = new Error('enough')
  stop.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await expect(unlessAborted(never(), stop.signal)).rejects.toBe(reason)
})

it('a wait settles like its work if that comes first', async () => {
  const { signal } = new AbortController()
  expect(await unlessAborted(Promise.resolve(1), signal)).toBe(1)
  expect(await inTime(Promise.resolve(2), 60_000, () => new Error('late'))).toBe(2)
  await expect(unlessAborted(Promise.reject(new Error('it')), signal)).rejects.toThrow('it')
})

it('a wait rejects after its time, and ignores a later failure', async () => {
  const work = Promise.withResolvers<void>()
  await expect(inTime(work.promise, 1, () => new Error('late'))).rejects.toThrow('late')
  work.reject(new Error('nobody hears it'))
})

it('a wait accepts an answer that arrived while the process itself was paused', async () => {
  const server = createServer((socket) => socket.end('answer')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1').pause()
  // When both ends are connected, the unread answer is in the socket.
  await Promise.all([once(client, 'connect'), once(server, 'connection')])
  const answered = once(client.resume(), 'data')
  const untilMs = performance.now() + 20
  const late = vi.fn(() => new Error('late'))
  const waiting = inTime(answered, 5, late)
  while (performance.now() < untilMs);
  expect(String(await waiting)).toBe('answer')
  await new Promise(setImmediate)
  expect(late).not.toHaveBeenCalled()
  server.close()
})
