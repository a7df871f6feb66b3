import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createEndingSessions } from './ending-sessions.ts'

/** A session that a call begins when it arrives, as the service has it. */
function scene() {
  const unended: unknown[] = []
  const ending = createEndingSessions((_identifier, error) => unended.push(error))
  let there = true
  let ends = 0
  const call = (isPoll: boolean) => {
    const answer = Promise.withResolvers<void>()
    const stop = new AbortController()
    stop.signal.addEventListener('abort', () => answer.reject(new Error('cut')))
    ending.follow('s', { isPoll, stop, answer: answer.promise })
    return {
      stop,
      arrive() {
        there = true
        answer.resolve()
      },
    }
  }
  const end = (): Promise<boolean> =>
    ending.end('s', async () => {
      ends += 1
      const was = there
      there = false
      return was
    })
  return { ending, call, end, unended, isThere: () => there, ends: () => ends }
}

test('an end comes after the calls that are on their way, and cuts those that are held open', async () => {
  const { ending, call, end, isThere, ends } = scene()
  const [poll, late] = [call(true), call(false)]
  const ended = end()
  await setImmediate()
  expect([ends(), poll.stop.signal.aborted, ending.isOver('s')]).toEqual([0, false, true])
  late.arrive()
  expect(await ended).toBe(true)
  expect([isThere(), ends(), poll.stop.signal.aborted]).toEqual([false, 1, true])
})

test('what a call begins that arrives after the end is ended, too', async () => {
  const { ending, call, end, isThere, unended } = scene()
  const late = call(false)
  // Longer than a call is waited for.
  expect(await end()).toBe(true)
  expect(late.stop.signal.aborted).toBe(false)
  late.arrive()
  expect(isThere()).toBe(true)
  await ending.idle()
  expect([isThere(), unended]).toEqual([false, []])
})

test('an identifier that is over is so until somebody begins it again', async () => {
  const { ending, end } = scene()
  await end()
  expect([ending.isOver('s'), ending.isOver('other')]).toEqual([true, false])
  ending.begin('s')
  expect(ending.isOver('s')).toBe(false)
})
