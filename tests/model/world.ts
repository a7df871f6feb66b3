/**
 * The fleet in the model: the real scripts, Redis, BullMQ jobs and admission. A worker is only a few fields
 * here, and each of its writes is one step, so that anything may happen in between.
 *
 * A worker handles one execution as the worker app does (process-execution.ts, recover.ts,
 * record-attempt.ts):
 *
 *   taken ──admit──► admitted ──begin──► begun ──record──► recorded ──settle | retry──► over
 *     │                 └──fail: refund, record──────────────▲
 *     ├──interrupted: record worker_lost────────────────────┤
 *     └──back, defer, later (refund, put back)──► over
 *
 * A worker that is fenced off or dies keeps its execution: its next write may still arrive at any time.
 */
import { createAdmission, type Admission, type AttemptKey, type Lease } from '@cofferdam/admission'
import { DEFAULT_TENANT_CAPS, isCofferdamError, type ExecutionId } from '@cofferdam/contract'
import { LANES, type Lane } from '@cofferdam/queue'
import {
  KEYS,
  list,
  numberOrNull,
  releaseOf,
  run,
  runCoded,
  SCRIPTS_UNDER_TEST_CLOCK as SCRIPTS,
  TEST_CLOCK,
  text,
  type Reply,
  type Script,
} from '@cofferdam/queue/testing'
import type { Worker } from 'bullmq'
import type { Redis } from 'ioredis'
import type { Choice, Step } from './steps.ts'

/** Lock time of the model's workers. rest.ts also moves the model's clock by about this time. */
export const LOCK_MS = 15_000
const SLOTS = 2
/** Workers that live at the same time. */
const WORKERS_MAX = 6
/** Wide windows, so that no run of the model crosses midnight. */
const WINDOW_MS = 10 * 365 * 86_400_000

/** The real admission. It counts the rows of the world that is played. */
export function admissionOf(redis: Redis, charged: (tenant: string) => number): Admission {
  return createAdmission({
    redis,
    dayMs: WINDOW_MS,
    hourMs: WINDOW_MS,
    leaseMs: WINDOW_MS,
    countCharged: async (tenantId, atMs) => ({
      day: { bucket: Math.floor(atMs / WINDOW_MS), count: charged(tenantId) },
      hours: [],
    }),
  })
}

/** The audit row of one attempt. Its JSON is also the visible result. */
export interface Row {
  execution: string
  attempt: number
  ending: string
  charged: boolean
  by: string
}

interface ModelWorker {
  name: string
  isAlive: boolean
  slots: number
  kind: string
}

/** Kinds of workers and what they offer. Needs use these words, and one word that no kind has. */
export const OFFERS: Readonly<Record<string, string>> = {
  strong: 'backend=a,isolation=strong\nbackend=b',
  weak: 'backend=b',
  other: 'backend=c',
  large: 'backend=b,memory=large',
}
export const NEEDS = [
  '',
  'backend=a',
  'backend=b',
  'isolation=strong',
  'backend=c',
  'backend=nobody',
  'backend=b,memory=large',
] as const

/** Whether a kind has what is needed, decided without the scripts. */
export function canServe(kind: string, need: string): boolean {
  const words = need === '' ? [] : need.split(',')
  return (OFFERS[kind] ?? '')
    .split('\n')
    .some((line) => words.every((word) => line.split(',').includes(word)))
}

interface Began {
  fence: number
  charged: boolean
}

interface Held {
  id: ExecutionId
  fence: number
  attempt: number
  tenant: string
  agent: string
  lane: Lane
  worker: ModelWorker
  /** Null when the execution was assigned to the worker. */
  jobId: string | null
  token: string
  interrupted: Began | null
  isCancelled: boolean
  phase: 'taken' | 'admitted' | 'begun' | 'recorded' | 'over'
  /** True when the worker stalled, lost the attempt, and was admitted only then. */
  isSleeper: boolean
  lease: Lease | null
  row: Row | null
  wantsRetry: boolean
  outbox: boolean
  /** True when its outbox entry became a row. */
  isStored: boolean
  /** Its last write, so that it can be repeated. */
  last: (() => Promise<unknown>) | null
}

export interface Transport {
  redis: Redis
  admission: Admission
  /** Charged rows of a tenant in the world that is played now. */
  charged: (tenant: string) => number
  workers: Record<Lane, Worker>
}

export class World {
  readonly rows = new Map<string, Row>()
  /** `<id> <attempt>` → how often its user code began. */
  readonly begun = new Map<string, number>()
  readonly ids: ExecutionId[] = []
  readonly problems: string[] = []
  /** What happened, one line each. It is printed with a counterexample. */
  readonly story: string[] = []
  readonly held: Held[] = []
  workers: ModelWorker[] = []
  readonly admission: Admission
  readonly transport: Transport
  private readonly redis: Redis
  private puts: string[][] = []
  private tokens = 0
  private born = 0
  nowMs = Date.UTC(2026, 0, 1)

  constructor(transport: Transport) {
    this.transport = transport
    this.redis = transport.redis
    this.admission = transport.admission
    transport.charged = (tenant) => this.chargedRows(tenant)
  }

  async open(): Promise<void> {
    await this.redis.flushall()
    await this.setClock(0)
    for (let n = 0; n < 3; n += 1) await this.hire()
    for (const tenant of ['t0', 't1'])
      await this.admission.setCaps(tenant, {
        ...DEFAULT_TENANT_CAPS,
        tenant_daily: 1e6,
        agent_hourly: 1e6,
        concurrency: 1000,
      })
  }

  chargedRows(tenant: string): number {
    return [...this.rows.values()].filter((row) => row.charged && this.tenantOf.get(row.execution) === tenant)
      .length
  }

  readonly tenantOf = new Map<string, string>()

  /** A worker joins. By default its kind is the next one of the list. */
  async hire(kind = pickOf(Object.keys(OFFERS), this.born) ?? ''): Promise<void> {
    const worker = { name: `w${(this.born += 1)}`, isAlive: true, slots: SLOTS, kind }
    this.workers.push(worker)
    await this.beat(worker)
  }

  async setClock(byMs: number): Promise<void> {
    this.nowMs += byMs
    await this.redis.set(TEST_CLOCK, this.nowMs)
  }

  private async call(
    script: Script,
    key: string,
    args: (string | number)[],
  ): Promise<{ code: string; rest: Reply[] }> {
    const answer = await runCoded(this.redis, script, key, args)
    const shown = args.map(String).filter((text) => text !== '' && !text.startsWith('"x"'))
    this.story.push(`    ${script.name} ${shown.join(' ')} → ${answer.code} ${JSON.stringify(answer.rest)}`)
    return answer
  }

  async apply(step: Step): Promise<void> {
    switch (step.do) {
      case 'put':
        return this.put(step)
      case 'put again':
        return this.putAgain(pickOf(this.puts, step.execution))
      case 'cancel':
        return this.cancel(pickOf(this.ids, step.execution))
      case 'lose job':
        return this.loseJob(step.lane, step.job)
      case 'beat':
        return this.withWorker(step.worker, (worker) => this.beat(worker))
      case 'drain':
        return this.withWorker(step.worker, (worker) => {
          worker.slots = 0
          return this.beat(worker)
        })
      case 'crash':
        return this.withWorker(step.worker, async (worker) => {
          worker.isAlive = false
          await this.hire()
        })
      case 'leave':
        return this.withWorker(step.worker, (worker) => this.leave(worker))
      case 'join':
        if (this.workers.filter((one) => one.isAlive).length >= WORKERS_MAX) return
        return this.hire(pickOf(Object.keys(OFFERS), step.kind))
      case 'fetch':
        return this.withWorker(step.worker, (worker) => this.fetch(worker, step.lane))
      case 'go on':
        return this.withWorker(step.worker, (worker) => this.goOn(worker, step.lane))
      case 'recover':
        return this.withWorker(step.worker, (worker) => this.recover(worker, step.lane))
      case 'hand':
        return this.withWorker(step.worker, (worker) => this.takeAssigned(worker, step.lane, step.how))
      case 'act':
        return this.act(pickOf(this.held, step.held), step.choice, step.late, step.outbox)
      case 'repeat':
        await pickOf(this.held, step.held)?.last?.()
        return
      case 'lock expires':
        return this.expire(pickOf(this.held, step.held))
      case 'relock':
        return this.relock(pickOf(this.held, step.held))
      case 'stalled check':
        return this.stalledCheck(step.lane)
      case 'die':
        await this.apply({ do: 'crash', worker: step.worker })
        return this.apply({ do: 'redeliver' })
      case 'redeliver':
        for (const held of this.held) if (!held.worker.isAlive) await this.expire(held)
        for (const lane of [...LANES, ...LANES]) await this.stalledCheck(lane)
        return
      case 'sweep':
        return this.sweep()
      case 'limits':
        await run(this.redis, SCRIPTS.limits, KEYS.window, [
          `t${step.tenant}`,
          step.weight,
          step.concurrency ?? '',
          '',
        ])
        return
      case 'clock':
        return this.setClock(step.ms)
    }
  }

  private async withWorker(index: number, use: (worker: ModelWorker) => Promise<void>): Promise<void> {
    const worker = pickOf(
      this.workers.filter((one) => one.isAlive),
      index,
    )
    if (worker !== undefined) await use(worker)
  }

  private async put(step: Extract<Step, { do: 'put' }>): Promise<void> {
    const id = `e${this.ids.length + 1}` as ExecutionId
    const tenant = `t${step.tenant}`
    const args = [
      id,
      tenant,
      `a${step.agent}`,
      step.lane,
      step.priority,
      step.delayMs,
      '{}',
      '',
      step.key === null ? '' : `${tenant}:k${step.key}`,
      'hash',
      '',
      step.session === null ? '' : `s${step.session}`,
      '',
      '',
      NEEDS[step.need] ?? '',
    ].map(String)
    const { code } = await this.call(SCRIPTS.enqueue, KEYS.record + id, args)
    if (code === 'accepted') {
      this.ids.push(id)
      this.puts.push(args)
      this.tenantOf.set(id, tenant)
    } else if (code !== 'duplicate') this.problems.push(`put answered ${code}`)
  }

  private async putAgain(args: string[] | undefined): Promise<void> {
    if (args === undefined) return
    const { code, rest } = await this.call(SCRIPTS.enqueue, KEYS.record + (args[0] ?? ''), args)
    if (code !== 'accepted' || text(rest[0]) !== args[0])
      this.problems.push(`put of ${args[0]} again: ${code}`)
  }

  /** Does what end-unstarted.ts does: reads the record, composes the ending, and ends the execution. */
  private async cancel(id: ExecutionId | undefined, cause = 'cancelled'): Promise<void> {
    if (id === undefined) return
    const attempt = Math.max(1, Number(await this.redis.hget(KEYS.record + id, 'at')))
    const row: Row = { execution: id, attempt, ending: cause, charged: false, by: 'queue' }
    await this.call(SCRIPTS.endUnstarted, KEYS.record + id, [
      id,
      attempt,
      JSON.stringify(row),
      '}',
      JSON.stringify(row),
      cause,
      cause === 'cancelled' ? '1' : '',
    ])
  }

  async loseJob(lane: Lane, index: number): Promise<void> {
    const queue = `${KEYS.bull}${lane}`
    const job = pickOf(await this.redis.zrange(`${queue}:prioritized`, '0', '-1'), index)
    if (job === undefined) return
    await this.redis.multi().zrem(`${queue}:prioritized`, job).del(`${queue}:${job}`).exec()
  }

  async beat(worker: ModelWorker): Promise<void> {
    const own = this.held.filter((held) => held.worker === worker && held.phase !== 'over')
    const { slots } = worker
    const { rest } = await this.call(SCRIPTS.heartbeat, KEYS.window, [
      worker.name,
      slots,
      slots,
      Math.floor(slots / 2),
      own.length,
      LOCK_MS,
      slots,
      worker.kind,
      OFFERS[worker.kind] ?? '',
      ...own.flatMap(({ id, fence }) => [id, fence]),
    ])
    const cancelled = new Set(list(rest[1]).map(text))
    for (const held of own) if (cancelled.has(`${held.id} ${held.fence}`)) held.isCancelled = true
  }

  private async leave(worker: ModelWorker): Promise<void> {
    worker.isAlive = false
    await this.call(SCRIPTS.heartbeat, KEYS.window, [worker.name, -1, 0, 0, 0, LOCK_MS, 0, worker.kind, ''])
    await this.hire()
  }

  async fetch(worker: ModelWorker, lane: Lane): Promise<void> {
    const token = `${worker.name}:${(this.tokens += 1)}`
    const job = await this.transport.workers[lane].getNextJob(token, { block: false })
    if (job?.id === undefined) return
    const { id, release } = releaseOf(job.id)
    const { code, rest } = await this.call(SCRIPTS.take, KEYS.record + id, [
      id,
      release,
      worker.name,
      worker.kind,
    ])
    if (code === 'taken') await this.hold(worker, lane, id as ExecutionId, rest, job.id, token)
    else await job.moveToCompleted(undefined, token, false).catch(() => undefined)
  }

  /** Continues with the next job, like a slot (lua/next.lua). `finishJob` does BullMQ's part of the end. */
  async goOn(worker: ModelWorker, lane: Lane): Promise<void> {
    const token = `${worker.name}:${(this.tokens += 1)}`
    const args = [lane, '', token, 1, worker.name, LOCK_MS, worker.kind]
    const { code, rest } = await this.call(SCRIPTS.next, KEYS.window, args)
    if (code !== 'taken') return
    const jobId = text(rest.at(-1))
    await this.hold(worker, lane, releaseOf(jobId).id as ExecutionId, rest, jobId, token)
  }

  /** Takes an execution that a dead worker had begun. This needs no free slot. */
  async recover(worker: ModelWorker, lane: Lane): Promise<void> {
    const token = `${worker.name}:${(this.tokens += 1)}`
    const args = [lane, token, worker.name, worker.kind, LOCK_MS]
    const { code, rest } = await this.call(SCRIPTS.takeLost, KEYS.window, args)
    if (code !== 'taken') return
    const jobId = text(rest.at(-1))
    await this.hold(worker, lane, releaseOf(jobId).id as ExecutionId, rest, jobId, token)
    if (this.held.at(-1)?.interrupted === null) this.problems.push(`${jobId} was recovered and had not begun`)
  }

  async takeAssigned(worker: ModelWorker, lane: Lane, how: string): Promise<void> {
    const { code, rest } = await this.call(SCRIPTS.takeAssigned, KEYS.window, [
      worker.name,
      lane,
      how,
      worker.kind,
    ])
    if (code === 'taken') await this.hold(worker, lane, text(rest[11]) as ExecutionId, rest, null, '')
  }

  private async hold(
    worker: ModelWorker,
    lane: Lane,
    id: ExecutionId,
    rest: Reply[],
    jobId: string | null,
    token: string,
  ): Promise<void> {
    const began = text(rest[5])
    await this.expectServed(worker, id, began !== '')
    this.held.push({
      id,
      lane,
      worker,
      jobId,
      token,
      fence: numberOrNull(rest[0]) ?? 0,
      attempt: numberOrNull(rest[1]) ?? 0,
      tenant: text(rest[9]),
      agent: (await this.redis.hget(KEYS.record + id, 'a')) ?? '',
      interrupted: began === '' ? null : (JSON.parse(began) as Began),
      isCancelled: text(rest[7]) === '1',
      phase: 'taken',
      isSleeper: false,
      lease: null,
      row: null,
      wantsRetry: false,
      outbox: false,
      isStored: false,
      last: null,
    })
  }

  /**
   * A worker may be given an execution that it cannot serve in two cases only. No known kind can serve it,
   * and then the worker refuses it. Or its user code had begun before.
   */
  private async expectServed(worker: ModelWorker, id: ExecutionId, hadBegun: boolean): Promise<void> {
    const need = (await this.redis.hget(KEYS.record + id, 'nd')) ?? ''
    const known = await this.redis.zrange(KEYS.kinds, 0, '-1')
    if (hadBegun || canServe(worker.kind, need) || !known.some((kind) => canServe(kind, need))) return
    this.problems.push(`${worker.name} (${worker.kind}) was given ${id}, which needs ${need}`)
  }

  private keyOf(held: Held): AttemptKey {
    return {
      tenantId: held.tenant,
      agentId: held.agent,
      executionId: held.id,
      attempt: held.attempt,
      fence: held.fence,
    }
  }

  /** Makes the holder's next call. */
  async act(held: Held | undefined, choice: Choice, late: boolean, outbox: boolean): Promise<void> {
    if (held === undefined || held.phase === 'over') return
    if (held.phase === 'recorded') return this.end(held)
    if (held.phase === 'begun') {
      held.wantsRetry = choice === 'retry'
      return this.record(
        held,
        held.isCancelled ? 'cancelled' : choice === 'on' ? 'ok' : 'sandbox_lost',
        true,
        late,
        outbox,
      )
    }
    if (held.interrupted !== null)
      return choice === 'back' && held.phase === 'taken'
        ? this.putBack(held, 'back')
        : this.record(held, 'worker_lost', held.interrupted.charged, late, outbox)
    if (choice === 'back') return this.putBack(held, 'back')
    if (held.phase === 'taken' && choice === 'route') return this.route(held)
    if (held.phase === 'taken') {
      if (choice === 'defer') return this.putBack(held, choice)
      const verdict = await this.admission.admit(this.keyOf(held)).catch((error: unknown) => {
        if (isCofferdamError(error) && error.code === 'fenced') return null
        throw error
      })
      if (verdict === null) return void (held.phase = 'over')
      if (!verdict.admitted)
        return void this.problems.push(`admission refused ${held.id}: ${verdict.dimension}`)
      held.lease = verdict.lease
      held.phase = 'admitted'
      held.isSleeper = !(await this.owns(held))
      return
    }
    if (held.isCancelled) return this.record(held, 'cancelled', true, late, outbox)
    if (choice === 'later') return this.putBack(held, choice)
    if (choice !== 'fail' && choice !== 'defer') return this.begin(held)
    await this.refund(held)
    return this.record(held, 'provisioning', false, late, outbox)
  }

  private async owns(held: Held): Promise<boolean> {
    const [state, fence] = await this.redis.hmget(KEYS.record + held.id, 's', 'f')
    return state === 'running' && fence === String(held.fence)
  }

  private async refund(held: Held): Promise<void> {
    if (held.lease !== null) await this.admission.refund(this.keyOf(held), held.lease)
  }

  private async begin(held: Held): Promise<void> {
    const mark = JSON.stringify({
      attempt: held.attempt,
      fence: held.fence,
      worker: held.worker.name,
      charged: true,
    })
    const args = [held.id, held.fence, mark, '"x":1}', held.attempt]
    const write = () => this.call(SCRIPTS.begin, KEYS.record + held.id, args)
    const { code, rest } = await write()
    held.last = write
    if (code === 'cancelled') held.isCancelled = true
    else if (code === 'fenced') {
      // As in handle-execution.ts: an owner that was admitted too late refunds its own charge, because nobody
      // else does.
      if (rest[0] === 1) await this.admission.refund(this.keyOf(held))
      held.phase = 'over'
    } else {
      held.phase = 'begun'
      const key = `${held.id} ${held.attempt}`
      this.begun.set(key, (this.begun.get(key) ?? 0) + 1)
    }
  }

  /** Writes the audit row. The first row of an attempt stays, and a second writer uses it. */
  private async record(
    held: Held,
    ending: string,
    charged: boolean,
    late: boolean,
    outbox: boolean,
  ): Promise<void> {
    // If Postgres was away for the next owner, it is also away for a stalled one. Otherwise the row would
    // come from the stalled worker and the visible result from the next owner
    // (docs/internals/state-machines.md).
    const isAway = this.held.some(
      (other) =>
        other !== held &&
        other.id === held.id &&
        other.attempt === held.attempt &&
        other.outbox &&
        !other.isStored,
    )
    if ((!late || isAway) && !(await this.owns(held))) return void (held.phase = 'over')
    const own: Row = {
      execution: held.id,
      attempt: held.attempt,
      ending,
      charged,
      by: `${held.worker.name}/${held.fence}`,
    }
    const key = `${held.id} ${held.attempt}`
    const known = this.rows.get(key)
    held.outbox = outbox && known === undefined
    held.row = known ?? own
    if (!held.outbox) this.rows.set(key, held.row)
    // A dead owner's lease is not known here, so its charge is refunded without one (attempt-charge.ts).
    if (known !== undefined && charged && !known.charged)
      await this.admission.refund(this.keyOf(held), held.lease ?? undefined)
    held.phase = 'recorded'
  }

  private async end(held: Held): Promise<void> {
    const row = JSON.stringify(held.row)
    const kept = held.outbox ? row : ''
    const write = () =>
      held.wantsRetry
        ? this.call(SCRIPTS.requeue, KEYS.record + held.id, [held.id, held.fence, 'retry', 700, 0, '', kept])
        : this.call(SCRIPTS.settle, KEYS.record + held.id, [held.id, held.fence, row, '"x":1}', 700, kept])
    await this.finishWith(held, write)
  }

  private async putBack(held: Held, mode: 'back' | 'defer' | 'later'): Promise<void> {
    await this.refund(held)
    await this.finishWith(held, () =>
      this.call(SCRIPTS.requeue, KEYS.record + held.id, [
        held.id,
        held.fence,
        mode,
        0,
        mode === 'back' ? 0 : 300,
        '',
        '',
      ]),
    )
  }

  /**
   * The tenant's policy asks for more than the request did. Only the worker knows the policy, so it requeues
   * the execution.
   */
  private async route(held: Held): Promise<void> {
    const need = 'isolation=strong'
    const { code } = await this.call(SCRIPTS.requeue, KEYS.record + held.id, [
      held.id,
      held.fence,
      'route',
      0,
      0,
      '',
      '',
      need,
    ])
    if (code === 'nobody') {
      const known = await this.redis.zrange(KEYS.kinds, 0, '-1')
      const others = known.filter((kind) => kind !== held.worker.kind && canServe(kind, need))
      const all = known.every((kind) => canServe(kind, need))
      if (others.length > 0 && !all)
        this.problems.push(`${held.id}: ${others.join()} can serve it, and it was refused`)
      return
    }
    held.phase = 'over'
    await this.finishJob(held)
  }

  private async finishWith(held: Held, write: () => Promise<{ code: string; rest: Reply[] }>): Promise<void> {
    const { code } = await write()
    held.last = async () => void (await write())
    held.phase = 'over'
    if (code !== 'ok' && code !== 'fenced') this.problems.push(`${held.id}: write answered ${code}`)
    await this.finishJob(held)
  }

  /** The lock may be gone. Then BullMQ has given the job to another worker. */
  async finishJob({ jobId, lane, token }: Held): Promise<void> {
    if (jobId !== null) await this.call(SCRIPTS.next, KEYS.window, [lane, jobId, token, 0, '', LOCK_MS, ''])
  }

  private lockOf = ({ lane, jobId }: Held): string => `${KEYS.bull}${lane}:${jobId}:lock`

  async expire(held: Held | undefined): Promise<void> {
    if (held?.jobId != null && (await this.redis.get(this.lockOf(held))) === held.token)
      await this.redis.del(this.lockOf(held))
  }

  private async relock(held: Held | undefined): Promise<void> {
    if (held?.jobId == null || held.phase === 'over' || !held.worker.isAlive) return
    await this.call(SCRIPTS.relock, KEYS.record + held.id, [
      held.fence,
      held.lane,
      held.jobId,
      held.token,
      3_600_000,
    ])
  }

  async stalledCheck(lane: Lane): Promise<void> {
    await this.redis.del(`${KEYS.bull}${lane}:stalled-check`)
    await this.transport.workers[lane].getBackend().moveStalledJobsToWait()
  }

  async sweep(): Promise<void> {
    await this.redis.del(KEYS.sweepLock)
    const { rest } = await this.call(SCRIPTS.sweep, KEYS.window, [1, LOCK_MS])
    for (const id of list(rest[1])) await this.cancel(text(id) as ExecutionId, 'overdue')
  }

  /** Turns the records in the outbox into rows, as storeOutbox does. */
  async drainOutbox(): Promise<void> {
    for (const [, fields] of await this.redis.xrange(KEYS.outbox, '-', '+')) {
      const row = JSON.parse(fields[1] ?? '') as Row
      const key = `${row.execution} ${row.attempt}`
      if (!this.rows.has(key)) this.rows.set(key, row)
    }
    await this.redis.del(KEYS.outbox)
    for (const held of this.held) held.isStored = true
  }
}

/** The n-th item of a list, modulo its length. */
export function pickOf<T>(from: readonly T[], index: number): T | undefined {
  return from.length === 0 ? undefined : from[index % from.length]
}
