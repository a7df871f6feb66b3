/** Makes the view of an execution that this worker has just taken (taken.ts). */
import { CofferdamError, StopReason, type WorkerId } from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { markOf } from './begun-mark.ts'
import { endedTail, noticeTail } from './ending.ts'
import { createEventBuffer } from './event-buffer.ts'
import { patiently } from './fenced-write.ts'
import { keysOf } from './cell.ts'
import type { LaneJob } from './lane-source.ts'
import { readStreamed } from './live-events.ts'
import { createOwnership } from './ownership.ts'
import { numberOrNull, runCoded, SCRIPTS, text, type Script } from './scripts.ts'
import type { Taken } from './taken.ts'

/** The reply of the take. */
export type TakenFacts = Pick<
  Taken,
  | 'executionId'
  | 'request'
  | 'attempt'
  | 'fence'
  | 'enqueuedAtMs'
  | 'takenAtMs'
  | 'traceparent'
  | 'interrupted'
  | 'mayHaveRun'
> & { job: LaneJob }

/** The consumer's view of a taken execution. */
export interface HeldExecution {
  readonly taken: Taken
  /**
   * The BullMQ job and the token of its lock. An execution that was assigned to this worker (assigned.ts) has
   * no job in BullMQ, so its token is empty.
   */
  readonly job: LaneJob
  /** `<id> <fence>`, as heartbeat.lua names it. */
  readonly name: string
  readonly began: boolean
  /** True once it is settled, put back, or fenced off. */
  readonly over: boolean
  stop(reason: StopReason): void
}

export interface TakenDeps {
  redis: Redis
  workerId: WorkerId
  onError: (error: unknown) => void
  /** Called when an execution begins here. */
  onBegun: () => void
}

/** Creates the view of an execution that this worker has just taken. */
export function createTaken({ job, ...facts }: TakenFacts, deps: TakenDeps): HeldExecution {
  const { executionId, fence, attempt } = facts
  const madeMs = performance.now()
  const nowMs = (): number => Math.round(facts.takenAtMs + performance.now() - madeMs)
  const owned = createOwnership()
  let began = false
  let givenBack = false

  const script = (which: Script, args: readonly (string | number)[]) =>
    runCoded(deps.redis, which, keysOf(deps.redis).record + executionId, args)

  const events = createEventBuffer(async (batch, call, keep) => {
    await script(SCRIPTS.append, [executionId, fence, call, keep, ...batch])
  }, deps.onError)

  const finishWith = (which: Script, args: readonly (string | number)[]): Promise<void> =>
    owned.finish(
      () => events.flush(),
      () => script(which, args),
    )

  const requeue = (
    mode: 'retry' | 'defer' | 'later' | 'back' | 'route',
    { slotMs = 0, waitMs = 0, notice = '', record = '', need = '' },
  ): Promise<void> => {
    if (began && mode !== 'retry')
      return Promise.reject(new CofferdamError('conflict', 'An execution that began is not put back.'))
    return finishWith(SCRIPTS.requeue, [
      executionId,
      fence,
      mode,
      Math.round(slotMs),
      Math.round(waitMs),
      notice === '' ? '' : noticeTail(notice),
      record,
      need,
    ])
  }

  const taken: Taken = {
    ...facts,
    lane: job.lane,
    nowMs,
    signal: owned.signal,
    async begin(ref, place) {
      if (owned.over) throw new CofferdamError('fenced')
      const mark = markOf(facts, deps.workerId, ref, place)
      const { backend, isolation } = place
      const started = JSON.stringify({ attempt, backend, isolation }).slice(1)
      const { code, rest } = await patiently(() =>
        script(SCRIPTS.begin, [executionId, fence, mark, started, attempt]),
      )
      if (code === 'cancelled') {
        const reason = new StopReason('cancelled')
        owned.stop(reason)
        throw reason
      }
      if (code !== 'ok') {
        owned.lose('fenced off at begin')
        throw new CofferdamError('fenced', undefined, { details: { unbegun: numberOrNull(rest[0]) === 1 } })
      }
      if (!began) deps.onBegun()
      began = true
    },
    async handOver() {
      if (began && !owned.over) await script(SCRIPTS.handover, [executionId, fence]).catch(deps.onError)
    },
    emit(event) {
      if (!owned.over && (event.type === 'output' || event.type === 'notice' || event.type === 'progress'))
        events.emit(event)
    },
    room: () => (owned.over ? undefined : events.room()),
    async keep(what, name, value, keptMs) {
      if (owned.over) throw new CofferdamError('fenced')
      const { code, rest } = await script(SCRIPTS.keep, [executionId, fence, what, name, value, keptMs])
      if (code !== 'ok') throw new CofferdamError('fenced')
      return text(rest[0]) || null
    },
    streamed: () => readStreamed(deps.redis, executionId, attempt),
    settle: (record, { slotMs, outbox = false }) =>
      finishWith(SCRIPTS.settle, [
        executionId,
        fence,
        JSON.stringify(record.result),
        endedTail(record),
        Math.round(slotMs),
        outbox ? JSON.stringify(record) : '',
      ]),
    retry: (record, { slotMs, outbox = false }) =>
      requeue('retry', {
        slotMs,
        notice: `Attempt ${attempt} ended ${record.result.ending}; it runs again.`,
        record: outbox ? JSON.stringify(record) : '',
      }),
    defer: (untilMs, why) => requeue('defer', { waitMs: Math.max(0, untilMs - nowMs()), notice: why }),
    putOff: (untilMs, why) => requeue('later', { waitMs: Math.max(0, untilMs - nowMs()), notice: why }),
    async route(need) {
      await requeue('route', { need, notice: 'Waits for a worker that can run it.' })
      return owned.over
    },
    giveBack: async () => {
      if (givenBack) return
      await requeue('back', {})
      givenBack = true
    },
  }

  return {
    taken,
    job,
    name: `${executionId} ${fence}`,
    get began() {
      return began
    },
    get over() {
      return owned.over
    },
    stop: (reason) => {
      // A renewal that runs during the ending finds that the lock is gone with the job. The lock was not
      // lost.
      if (!owned.finishing) owned.stop(reason)
    },
  }
}
