import type { ExecutionRequest, StopReason } from '@cofferdam/contract'
import { beforeEach, expect, it } from 'vitest'
import { createSelfFence, type SelfFence } from './self-fence.ts'
import type { HeldExecution } from './create-taken.ts'

const LOCK_MS = 9000
const SILENCE_MS = 60_000

let nowMs: number
let fence: SelfFence
beforeEach(() => {
  nowMs = 0
  fence = createSelfFence({ lockMs: LOCK_MS, silenceMs: SILENCE_MS, turnMs: 1000 }, () => nowMs)
})

interface Held extends HeldExecution {
  stopped: StopReason | null
}

function held(retry?: ExecutionRequest['retry'], attempt = 1, type = 'script'): Held {
  const one = {
    taken: { request: { program: { type }, ...(retry === undefined ? {} : { retry }) }, attempt },
    over: false,
    stopped: null as StopReason | null,
    stop: (reason: StopReason) => {
      one.stopped ??= reason
    },
  }
  return one as unknown as Held
}

/**
 * Checks once a second until `one` is stopped. Returns the time of the stop, or null if there was none by
 * `untilMs`.
 */
function stoppedAt(one: Held, untilMs = 100_000): number | null {
  while (nowMs < untilMs && one.stopped === null) {
    nowMs += 1000
    fence.check([one])
  }
  return one.stopped === null ? null : nowMs
}

const AGAIN = { max_attempts: 2, on: ['worker_lost' as const] }

it('stops an execution that another worker would run again before its lock expires', () => {
  const one = held(AGAIN)
  fence.renewed([one], 0)
  expect(stoppedAt(one)).toBe(8000)
  expect(one.stopped?.stopCause).toBe('lock_lost')
})

it('stops a file operation too, because its next owner repeats it', () => {
  const one = held(undefined, 1, 'files')
  fence.renewed([one], 0)
  expect(stoppedAt(one)).toBe(8000)
})

it('stops an execution that nobody runs again only after a minute', () => {
  for (const one of [held(), held(AGAIN, 2), held({ max_attempts: 3, on: ['sandbox_lost'] })]) {
    nowMs = 0
    fence = createSelfFence({ lockMs: LOCK_MS, silenceMs: SILENCE_MS, turnMs: 1000 }, () => nowMs)
    fence.renewed([one], 0)
    expect(stoppedAt(one)).toBe(59_000)
  }
})

it('counts from the take without a renewal, otherwise from the sending of the last renewal', () => {
  const fresh = held(AGAIN)
  nowMs = 50_000
  fence.check([])
  expect(stoppedAt(fresh)).toBe(58_000)
  const renewed = held(AGAIN)
  fence.renewed([renewed, null], 57_500)
  expect(stoppedAt(renewed)).toBe(66_000)
})

it('lets Redis answer first when the process itself was suspended', () => {
  const one = held(AGAIN)
  fence.renewed([one], 0)
  fence.check([one])
  nowMs = 30_000
  fence.check([one])
  expect(one.stopped).toBeNull()
  nowMs = 31_000
  fence.check([one])
  expect(one.stopped).not.toBeNull()
})

it('stops an execution also in a process whose every check is late', () => {
  const one = held(AGAIN)
  fence.renewed([one], 0)
  while (nowMs < 30_000 && one.stopped === null) {
    nowMs += 3000
    fence.check([one])
  }
  expect(one.stopped).not.toBeNull()
})

it('does not stop an execution that is over', () => {
  const one = Object.assign(held(AGAIN), { over: true })
  fence.renewed([one], 0)
  expect(stoppedAt(one)).toBeNull()
})
