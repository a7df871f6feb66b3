import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { fireRoutine, tickOf } from '../src/index.ts'
import { openStage, runsOf, until, type Stage } from './stage.ts'

let stage: Stage
beforeAll(async () => {
  stage = await openStage()
  stage.work()
})
afterAll(() => stage[Symbol.asyncDispose]())

const deps = () => ({ routines: stage.store.routines, producer: stage.producer })

describe('a trigger of a routine', () => {
  it('starts one execution in the routine lane, however often the trigger is delivered', async () => {
    const { routine_id: id } = await stage.routine()
    const tick = tickOf(Date.parse('2026-11-20T08:00:00Z'))
    const runs = await Promise.all([1, 2, 3, 4].map(() => fireRoutine(deps(), id, tick)))
    const ids = new Set(runs.map((run) => run?.execution_id))
    expect(ids.size).toBe(1)
    expect(runs[0]).toMatchObject({ outcome: 'enqueued', scheduled_at: '2026-11-20T08:00:00.000Z' })
    const executionId = runs[0]!.execution_id!
    await stage.producer.wait(executionId, { timeoutMs: 30_000 })
    const { audit } = (await stage.store.findExecution('acme', executionId))!
    expect(audit).toHaveLength(1)
    expect(audit[0]).toMatchObject({ invocation_source: 'scheduled', tenant_id: 'acme' })
    expect(await runsOf(stage, id)).toHaveLength(1)
  })

  it('finds its execution again after a crash between queue and table', async () => {
    const { routine_id: id } = await stage.routine({}, 'wait')
    const tick = tickOf(1_800_000_000_000)
    const failing = {
      ...stage.store.routines,
      inTurn: (...[one, trigger, decide]: Parameters<typeof stage.store.routines.inTurn>) =>
        stage.store.routines.inTurn(one, trigger, async (turn) => {
          await decide(turn)
          throw new Error('the worker died here')
        }),
    }
    await expect(fireRoutine({ ...deps(), routines: failing }, id, tick)).rejects.toThrow()
    const live = await stage.producer.live('acme', 100)
    const run = await fireRoutine(deps(), id, tick)
    expect(live.map((state) => state.execution_id)).toContain(run?.execution_id)
    await stage.producer.cancel(run!.execution_id!)
  })

  it('is refused with a reason when the stored request is no longer valid', async () => {
    const { routine_id: id } = await stage.routine({
      request: {
        tenant_id: 'acme',
        agent_id: 'agent-1',
        program: { type: 'script', language: 'python', source: '1' },
        limits: { hard_timeout_ms: 7_200_000, soft_timeout_ms: 7_200_000 },
      },
    })
    const odd = {
      ...stage.store.routines,
      inTurn: (...[one, trigger, decide]: Parameters<typeof stage.store.routines.inTurn>) =>
        stage.store.routines.inTurn(one, trigger, (turn) =>
          decide({ ...turn, routine: { ...turn.routine, request: { program: { type: 'cobol' } } } }),
        ),
    }
    expect(await fireRoutine({ ...deps(), routines: odd }, id, tickOf(1))).toMatchObject({
      outcome: 'refused',
      execution_id: null,
    })
  })

  it('does nothing when the routine was deleted', async () => {
    const { routine_id: id } = await stage.routine()
    await stage.store.routines.remove('acme', id, 'test')
    expect(await fireRoutine(deps(), id, tickOf(1))).toBeNull()
  })
})

describe('while an earlier run is not finished,', () => {
  const running = (id: string) =>
    until(`${id} to run`, async () =>
      (await stage.producer.live('acme', 100)).find(
        (state) => state.execution_id === id && state.status === 'running',
      ),
    )

  it('the rule forbid skips the tick and names the earlier run', async () => {
    const { routine_id: id } = await stage.routine({ concurrency: 'forbid' }, 'wait')
    const first = await fireRoutine(deps(), id, tickOf(1000))
    await running(first!.execution_id!)
    const second = await fireRoutine(deps(), id, tickOf(2000))
    expect(second).toMatchObject({ outcome: 'skipped', execution_id: null })
    expect(second?.reason).toBe(`${first?.execution_id} has not ended.`)
    await stage.producer.cancel(first!.execution_id!)
    await stage.producer.wait(first!.execution_id!, { timeoutMs: 30_000 })
    const third = await fireRoutine(deps(), id, tickOf(3000))
    expect(third?.outcome).toBe('enqueued')
    await stage.producer.cancel(third!.execution_id!)
  })

  it('the rule forbid accepts only one of many concurrent triggers', async () => {
    const { routine_id: id } = await stage.routine({ concurrency: 'forbid' }, 'wait')
    const runs = await Promise.all([1, 2, 3, 4, 5].map((n) => fireRoutine(deps(), id, tickOf(n))))
    const enqueued = runs.filter((run) => run?.outcome === 'enqueued')
    expect(enqueued).toHaveLength(1)
    expect(runs.filter((run) => run?.outcome === 'skipped')).toHaveLength(4)
    await stage.producer.cancel(enqueued[0]!.execution_id!)
  })

  it('the rule replace cancels the earlier run, and enqueues the new one after its end', async () => {
    const { routine_id: id } = await stage.routine({ concurrency: 'replace' }, 'wait')
    const first = await fireRoutine(deps(), id, tickOf(1000))
    await running(first!.execution_id!)
    const second = await fireRoutine(deps(), id, tickOf(2000))
    expect(second?.outcome).toBe('enqueued')
    const ended = await stage.producer.get(first!.execution_id!)
    expect(ended).toMatchObject({ status: 'ended', result: { ending: 'cancelled' } })
    await stage.producer.cancel(second!.execution_id!)
  })

  it('the rule allow runs both executions', async () => {
    const { routine_id: id } = await stage.routine({ concurrency: 'allow' }, 'wait')
    const runs = [await fireRoutine(deps(), id, tickOf(1000)), await fireRoutine(deps(), id, tickOf(2000))]
    for (const run of runs) await running(run!.execution_id!)
    for (const run of runs) await stage.producer.cancel(run!.execution_id!)
  })
})
