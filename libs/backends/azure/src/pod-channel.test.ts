/** The byte stream over requests, with a scripted pod that does one thing at a time. */
import { encodeFrame } from '@cofferdam/sandbox/guest'
import { CofferdamError } from '@cofferdam/contract'
import { expect, test, vi } from 'vitest'
import type { PodCalls } from './pod-calls.ts'
import { openPodChannel } from './pod-channel.ts'

const GREETING = Buffer.from([0x52, 2, 0, 0, 0, 0x7b, 0x7d])
const WAIT = { timeout: 20_000 }
const END = Buffer.from([0x58, 0, 0, 0, 0])

function scriptedPod(...said: Buffer[]) {
  let heard = Buffer.alloc(0)
  const asked: string[] = []
  let takes = Number.POSITIVE_INFINITY
  const calls: PodCalls = {
    attach: () => Promise.reject(new Error('attached already')),
    release: () => Promise.resolve(),
    async send(at, bytes) {
      const taken = bytes.subarray(0, takes)
      asked.push(`send ${taken.length}`)
      heard = Buffer.concat([heard.subarray(0, at), taken])
      return heard.length
    },
    async receive(at, waitMs, signal) {
      signal.throwIfAborted()
      asked.push(`receive ${waitMs}`)
      const all = Buffer.concat(said)
      // Nothing to send yet: let other tests run.
      if (all.length <= at) await new Promise((resolve) => setImmediate(resolve))
      return Buffer.concat(said).subarray(at)
    },
  }
  return {
    calls,
    asked,
    heard: () => heard,
    say: (bytes: Buffer) => said.push(bytes),
    takeAtMost: (bytes: number) => void (takes = bytes),
  }
}

test('the stream does not poll while the agent owes no answer, so that sends are not delayed', async () => {
  const pod = scriptedPod(GREETING)
  const { readable, writable } = openPodChannel(pod.calls, { pollMs: 300 })
  let read = Buffer.alloc(0)
  readable.on('data', (bytes: Buffer) => void (read = Buffer.concat([read, bytes])))
  await vi.waitFor(() => expect(read).toEqual(GREETING), WAIT)
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  expect(pod.asked).toEqual(['receive 300'])

  pod.say(END)
  writable.write(Buffer.concat([encodeFrame('J', Buffer.from('{}')), encodeFrame('G')]))
  await vi.waitFor(() => expect(read).toEqual(Buffer.concat([GREETING, END])), WAIT)
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  expect(pod.asked.slice(1)).toEqual(['send 12', 'receive 300'])
  readable.destroy()
})

test('the stream reads between the pieces of a large send, for an agent that waits to be read', async () => {
  const pod = scriptedPod(GREETING)
  pod.takeAtMost(5)
  const { readable, writable } = openPodChannel(pod.calls, { pollMs: 300 })
  const frames = Buffer.concat([encodeFrame('J', Buffer.from('{}')), encodeFrame('G')])
  readable.resume()
  await vi.waitFor(() => expect(pod.asked).toContain('receive 300'), WAIT)
  writable.write(frames)
  await vi.waitFor(() => expect(pod.heard()).toEqual(frames), WAIT)
  // The poll did not wait, because the worker had more to send.
  expect(pod.asked).toContain('receive 0')
  readable.destroy()
})

test('the stream uses long polls if they do not block other calls', async () => {
  const pod = scriptedPod()
  const { readable } = openPodChannel(pod.calls)
  readable.resume()
  await vi.waitFor(() => expect(pod.asked.length).toBeGreaterThan(3), WAIT)
  expect(new Set(pod.asked)).toEqual(new Set(['receive 20000']))
  pod.say(GREETING)
  await new Promise((resolve) => readable.once('data', resolve))
  const polls = pod.asked.length
  for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  expect(pod.asked.length).toBe(polls)
  readable.destroy()
})

test('the stream ends with the error of a call that fails for good', async () => {
  const pod = scriptedPod()
  const lost = new CofferdamError('sandbox_lost')
  const channel = openPodChannel({ ...pod.calls, receive: () => Promise.reject(lost) }, { pollMs: 300 })
  const ended = new Promise((resolve) => channel.readable.once('error', resolve))
  channel.readable.resume()
  expect(await ended).toBe(lost)
})
