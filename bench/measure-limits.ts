/**
 * How late a hard deadline is, for the caller and for the last process, and how much memory a flood of output
 * costs the worker. The program ignores every signal and has children. The bench trusts the backend's report
 * that all processes are gone. The backend's tests check that report with /proc.
 */
import { readFileSync } from 'node:fs'
import { createExecutor, createMemoryBudget, type Executor } from '@cofferdam/executor'
import {
  executionRequestSchema,
  newExecutionId,
  newWorkerId,
  tenantPolicySchema,
  type BlobStore,
} from '@cofferdam/contract'
import { openLocalPlace } from './local-place.ts'
import type { BenchContext, Measured } from './report.ts'
import { round, summarise } from './statistics.ts'
import { startWarmWorker } from './warm-worker.ts'

const BACKENDS = ['docker', 'process', 'gvisor']
const HARD_MS = 200
const STUBBORN = `
import os, signal, time
for number in range(1, 32):
    try: signal.signal(number, signal.SIG_IGN)
    except OSError: pass
for _ in range(3): os.fork()
print('up', flush=True)
while True: pass
`
const FLOOD = `
import sys
block = b'x' * 65536
for _ in range(16384): sys.stdout.buffer.write(block)
`

export async function measureLimits(context: BenchContext): Promise<Record<string, Measured>> {
  const results: Record<string, Measured> = {}
  for (const backend of BACKENDS)
    try {
      Object.assign(results, await deadlines(context, backend), await flood(context, backend))
    } catch (error) {
      context.skip(`limits.${backend}`, error instanceof Error ? error.message : String(error))
    }
  return results
}

async function deadlines({ quick }: BenchContext, backend: string): Promise<Record<string, Measured>> {
  await using place = await openLocalPlace(backend, { pools: { max_idle: 1 } })
  const executor = createExecutor({
    backends: new Map([[backend, place.backend]]),
    order: [backend],
    blobs: NO_BLOBS,
    memory: createMemoryBudget(4 * 1024 ** 3),
  })
  const answered: number[] = []
  const gone: number[] = []
  for (let i = 0; i < (quick ? 3 : 100); i++) {
    await place.ready(1)
    const late = await stopOne(executor, backend)
    answered.push(late.answered)
    gone.push(late.gone)
  }
  return {
    [`limits.${backend}.hard_deadline.answered`]: { unit: 'ms', summary: summarise(answered) },
    [`limits.${backend}.hard_deadline.gone`]: { unit: 'ms', summary: summarise(gone) },
  }
}

/** Milliseconds from the deadline to the outcome, and until the backend has proven that nothing is left. */
async function stopOne(executor: Executor, backend: string): Promise<{ answered: number; gone: number }> {
  let beganMs = 0
  const running = executor.start({
    executionId: newExecutionId(),
    attempt: 1,
    request: executionRequestSchema.parse({
      tenant_id: 'bench',
      agent_id: 'bench',
      backend,
      program: { type: 'script', language: 'python', source: STUBBORN },
      limits: { soft_timeout_ms: HARD_MS, hard_timeout_ms: HARD_MS },
    }),
    tenant: tenantPolicySchema.parse({
      tenant_id: 'bench',
      sandbox_enabled: true,
      compliance_tier: 'standard',
      min_isolation: 'none',
      environments: ['default-public'],
      retention_days: 1,
      redact: [],
    }),
    owner: newWorkerId('be9cbe9cbe9c'),
    signal: new AbortController().signal,
    traceparent: null,
    onBegin: () => {
      beganMs = performance.now()
      return Promise.resolve()
    },
    onOutput: () => undefined,
  })
  const outcome = await running.outcome
  const answered = performance.now() - beganMs - HARD_MS
  if (outcome.ending !== 'hard_timeout') throw new Error(`it ended ${outcome.ending}`)
  await running.gone
  return { answered, gone: performance.now() - beganMs - HARD_MS }
}

/** Growth of the worker's peak memory in MiB while a program prints 1 GiB under the default cap. */
async function flood(context: BenchContext, backend: string): Promise<Record<string, Measured>> {
  const worker = await startWarmWorker(context, { backends: [backend] })
  try {
    const pid = worker.process.pid ?? 0
    const run = (source: string) =>
      context.fleet.client.run(
        {
          tenant_id: 'bench',
          agent_id: 'bench',
          backend,
          program: { type: 'script', language: 'python', source },
          limits: { hard_timeout_ms: 120_000 },
        },
        { timeoutMs: 150_000 },
      )
    // Ordinary executions run first, so that the growth comes from the flood and not from the start.
    for (let i = 0; i < (context.quick ? 3 : 20); i++) await run('print(1+1)')
    const beforeMib = peakMib(pid)
    const result = await run(FLOOD)
    if (result.stdout_bytes !== 1024 ** 3) throw new Error(`it printed ${result.stdout_bytes} bytes`)
    return {
      [`limits.${backend}.flood.growth`]: { unit: 'MiB', value: round(peakMib(pid) - beforeMib) },
      [`limits.${backend}.flood.duration`]: { unit: 'ms', value: round(result.duration_ms) },
    }
  } finally {
    await worker.stop()
  }
}

const peakMib = (pid: number): number =>
  Number(/^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024

/** Stores nothing. */
const NO_BLOBS: BlobStore = {
  create: () =>
    Promise.resolve({
      write: () => Promise.resolve(),
      commit: () => Promise.resolve('none'),
      abort: () => Promise.resolve(),
    }),
  read: () => Promise.resolve(null),
  delete: () => Promise.resolve(),
}
