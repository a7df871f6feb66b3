/**
 * From enqueue to the result of `print(1+1)` in the client, per backend, with every sandbox opened cold.
 * Interleaved with a bare `python3 -I -c` and a hardened `docker run`. `fake` runs nothing, so its time is
 * that of queue, admission and audit.
 */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { ExecutionRequestInput, ExecutionResult } from '@cofferdam/contract'
import { barePython, realPython } from './bare-python.ts'
import { interleave, type Variant } from './rounds.ts'
import type { BenchContext, Measured } from './report.ts'
import { startWarmWorker } from './warm-worker.ts'
import { pairedRatio, summarise } from './statistics.ts'

const run = promisify(execFile)

const BACKENDS = ['fake', 'none', 'process', 'docker', 'gvisor']
const SOURCE = 'print(1+1)'
/** The hardening of our docker backend, as far as the docker command line supports it. */
const DOCKER_RUN = [
  'run --rm -i --network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 65534:65534',
  '--memory 256m --memory-swap 256m --cpus 1 --pids-limit 64 --tmpfs /tmp:rw,nosuid,nodev,size=64m',
  `cofferdam/sandbox:latest python3 -I -c ${SOURCE}`,
].flatMap((line) => line.split(' '))

export async function measureLatency(context: BenchContext): Promise<Record<string, Measured>> {
  const worker = await startWarmWorker(context, { backends: BACKENDS, warm: { pools: { enabled: false } } })
  try {
    const ours = await workingBackends(context)
    const base: Variant[] = [{ name: 'bare_python', run: barePython(await realPython(), SOURCE) }]
    if (ours.includes('docker')) base.push({ name: 'docker_run', run: () => run('docker', DOCKER_RUN) })
    const variants = [
      ...base,
      ...ours.map((backend) => ({ name: backend, run: () => execute(context, backend), isWarm: true })),
    ]
    const limitMs = context.quick ? 15_000 : 600_000
    const samples = await interleave(variants, context.quick ? 5 : 60, Date.now() + limitMs)
    const starts = await interleave(
      [{ name: 'start', run: () => untilStarted(context) }],
      context.quick ? 30 : 200,
      Date.now() + limitMs / 10,
    )
    return {
      ...report(samples, ours),
      'latency.enqueue_to_start': { unit: 'ms', summary: summarise(starts.get('start') ?? []) },
    }
  } finally {
    await worker.stop()
  }
}

function report(samples: Map<string, number[]>, ours: string[]): Record<string, Measured> {
  const results: Record<string, Measured> = {}
  const of = (name: string) => samples.get(name) ?? []
  for (const [name, values] of samples)
    results[`latency.${name}`] = { unit: 'ms', summary: summarise(values) }
  for (const backend of ours) {
    results[`latency.${backend}.vs_bare_python`] = {
      unit: 'ratio',
      ratio: pairedRatio(of(backend), of('bare_python')),
    }
    if (samples.has('docker_run'))
      results[`latency.${backend}.vs_docker_run`] = {
        unit: 'ratio',
        ratio: pairedRatio(of(backend), of('docker_run')),
      }
  }
  return results
}

/** From enqueue until the client gets the `started` event, on `fake`. */
async function untilStarted({ fleet }: BenchContext): Promise<void> {
  const { execution_id } = await fleet.client.enqueue(benchRequest('fake'))
  for await (const { event } of fleet.client.stream(execution_id)) if (event.type === 'started') return
}

/** The BACKENDS that can run a program here. The others are skipped with the reason. */
async function workingBackends(context: BenchContext): Promise<string[]> {
  const working: string[] = []
  for (const backend of BACKENDS)
    try {
      await execute(context, backend)
      working.push(backend)
    } catch (error) {
      context.skip(`latency.${backend}`, error instanceof Error ? error.message : String(error))
    }
  return working
}

export function benchRequest(backend: string, agent = 'bench'): ExecutionRequestInput {
  const source = backend === 'fake' ? '' : SOURCE
  return {
    tenant_id: 'bench',
    agent_id: agent,
    backend,
    program: { type: 'script', language: 'python', source },
  }
}

/** Runs one execution. Throws when it fails, so that a failure is never timed as a fast run. */
export async function execute(context: BenchContext, backend: string, agent?: string): Promise<void> {
  const result = await context.fleet.client.run(benchRequest(backend, agent), { timeoutMs: 60_000 })
  check(result, backend === 'fake' ? '' : '2\n')
}

/** Runs one execution of a Python source that prints 2. */
export async function executeSource(
  context: BenchContext,
  backend: string,
  source: string,
  more: Partial<ExecutionRequestInput> = {},
): Promise<void> {
  const request = {
    ...benchRequest(backend),
    ...more,
    program: { type: 'script', language: 'python', source } as const,
  }
  check(await context.fleet.client.run(request, { timeoutMs: 60_000 }), '2\n')
}

function check(result: ExecutionResult, expected: string): void {
  if (!result.ok) throw new Error(`${result.ending}: ${result.error_message ?? result.stderr}`)
  if (result.stdout !== expected)
    throw new Error(`expected ${JSON.stringify(expected)}, got ${JSON.stringify(result.stdout)}`)
}
