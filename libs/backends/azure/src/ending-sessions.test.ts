import { setImmediate } from 'node:timers/promises'
import { afterEach, expect, test, vi } from 'vitest'
import { createEndingSessions } from './ending-sessions.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** A session that a call creates when it arrives, as at the service. */
function scene(lateMs?: number[]) {
  const unended: unknown[] = []
  const ending = createEndingSessions((_identifier, error) => unended.push(error), lateMs)
  let there = true
  let ends = 0
  const call = (isPoll: boolean) => {
    const answer = Promise.withResolvers<void>()
    const stop = new AbortController()
    stop.signal.addEventListener('abort', () => answer.reject(new Error('cut')))
    ending.follow('s', { isPoll, stop, answer: answer.promise })
    return {
      stop,
      lose: () => answer.reject(new Error('no answer')),
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

test('a session is ended after its calls in flight have arrived', async () => {
  const { ending, call, end, isThere, ends } = scene()
  const late = call(false)
  const ended = end()
  await setImmediate()
  expect([ends(), ending.isOver('s')]).toEqual([0, true])
  late.arrive()
  expect(await ended).toBe(true)
  await ending.settle()
  expect([isThere(), ends()]).toEqual([false, 1])
})

test('a session is ended again if a late call created it after its end', async () => {
  const { ending, call, end, isThere, unended } = scene()
  const late = call(false)
  // The call takes longer than `end` waits for it.
  expect(await end()).toBe(true)
  expect(late.stop.signal.aborted).toBe(false)
  late.arrive()
  expect(isThere()).toBe(true)
  await ending.settle()
  expect([isThere(), unended]).toEqual([false, []])
})

test('an end cuts a poll without waiting for it, and a session that the poll creates is ended', async () => {
  const { ending, call, end, isThere, ends } = scene()
  const poll = call(true)
  await end()
  expect([ends(), poll.stop.signal.aborted]).toEqual([1, true])
  poll.arrive()
  expect(isThere()).toBe(true)
  await ending.settle()
  expect([isThere(), ends()]).toEqual([false, 2])
})

test('a session that an unanswered call creates later is ended', async () => {
  const { ending, call, end, isThere } = scene()
  const lost = call(false)
  lost.lose()
  await end()
  lost.arrive()
  await ending.settle()
  expect(isThere()).toBe(false)
})

test('an unanswered call causes ends until it cannot create a session any more', async () => {
  const { ending, call } = scene([0, 0, 0])
  call(false).lose()
  let ends = 0
  let there = true
  await ending.end('s', async () => {
    ends += 1
    // The session begins just after an end that came too early.
    there = ends === 2
    return true
  })
  await vi.waitFor(() => expect([ends, there]).toEqual([4, false]), 10_000)
})

test('a young session that is reported as missing is ended again', async () => {
  // The session is young however slow the machine is.
  vi.spyOn(performance, 'now').mockReturnValue(1)
  const { ending } = scene([0])
  const said: boolean[] = []
  const end = (answer: boolean): Promise<boolean> =>
    ending.end('s', async () => {
      said.push(answer)
      return answer
    })
  ending.began('s')
  expect(await end(false)).toBe(false)
  await ending.settle()
  expect(said).toEqual([false, false])
  // After a successful end, a report that the session is missing is believed: the end is not repeated.
  await end(true)
  await end(false)
  await ending.settle()
  expect(said).toEqual([false, false, true, false])
})

test('an older session that is reported as missing is not ended again', async () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(1)
  const { ending } = scene([0])
  ending.began('s')
  clock.mockReturnValue(10_001)
  let ends = 0
  const gone = async (): Promise<boolean> => {
    ends += 1
    return false
  }
  await ending.end('s', gone)
  await ending.settle()
  expect(ends).toBe(1)
})

test('an ended identifier stays ended until it is begun again', async () => {
  const { ending, end } = scene()
  await end()
  expect([ending.isOver('s'), ending.isOver('other')]).toEqual([true, false])
  ending.begin('s')
  expect(ending.isOver('s')).toBe(false)
})
