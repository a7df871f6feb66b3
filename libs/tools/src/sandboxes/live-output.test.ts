import { expect, it } from 'vitest'
import { createLiveOutput } from './live-output.ts'

const output = (stream: 'stdout' | 'stderr', text: string) =>
  ({ type: 'output', at_ms: 1, stream, text }) as const
const notice = { type: 'notice', at_ms: 1, message: 'Live output was dropped here.' } as const

function listen() {
  const seen = { stdout: '', stderr: '' }
  const live = createLiveOutput((stream, text) => void (seen[stream] += text))
  return { seen, live }
}

it('passes output on as it comes, and at the end what is missing', () => {
  const { seen, live } = listen()
  live.take(notice)
  live.take(output('stdout', 'a'))
  live.take(output('stderr', 'x'))
  expect(seen).toEqual({ stdout: 'a', stderr: 'x' })
  live.complete({ stdout: 'abc', stderr: 'x' })
  expect(seen).toEqual({ stdout: 'abc', stderr: 'x' })
})

it('has no output twice or in the wrong place after a gap', () => {
  const { seen, live } = listen()
  live.take(output('stdout', 'a'))
  live.take(notice)
  live.take(output('stdout', 'z'))
  expect(seen.stdout).toBe('a')
  live.complete({ stdout: 'a-lost-z', stderr: '' })
  expect(seen.stdout).toBe('a-lost-z')
})
