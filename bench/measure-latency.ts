/**
 * Enqueue → result of `print(1+1)` as the client sees it, per backend, interleaved with a bare `python3 -I -c` start and
 * a hardened `docker run`. On `fake` nothing runs, so its time is what queue, admission and audit add.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import type { ExecutionRequestInput } from '@cofferdam/contract'
import { interleave, type Variant } from './rounds.ts'
import type { BenchContext, Measured } from './report.ts'
import { pairedRatio, summarise } from './statistics.ts'

const run = promisify(execFile)

const BACKENDS = ['fake', 'none', 'process', 'docker', 'gvisor']
const SOURCE = 'print(1+1)'
/** The hardening of our docker backend, as far as the CLI can say it. */
const DOCKER_RUN = [
  'run --rm -i --network none --read-only --cap-drop ALL --security-opt no-new-privileges --user 65534:65534',
  '--memory 256m --memory-swap 256m --cpus 1 --pids-limit 64 --tmpfs /tmp:rw,nosuid,nodev,size=64m',
  `cofferdam/sandbox:latest python3 -I -c ${SOURCE}`,
].flatMap((line) => line.split(' '))

export async function measureLatency(context: BenchContext): Promise<Record<string, Measured>> {
  const { fleet } = context
  const worker = await fleet.startWorker({ COFFERDAM_BACKENDS: BACKENDS.join(','), COFFERDAM_SLOTS: '4' })
  try {
    const ours = await workingBackends(context)
    const python = await realPython()
    const base: Variant[] = [{ name: 'bare_python', run: () => run(python, ['-I', '-c', SOURCE]) }]
    if (ours.includes('docker')) base.push({ name: 'docker_run', run: () => run('docker', DOCKER_RUN) })
    const variants = [
      ...base,
      ...ours.map((backend) => ({ name: backend, run: () => execute(context, backend) })),
    ]
    const limitMs = context.quick ? 14_000 : 600_000
    const samples = await interleave(variants, context.quick ? 30 : 60, Date.now() + limitMs)
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

/** Enqueue until the client hears that the program starts, on `fake`. */
async function untilStarted({ fleet }: BenchContext): Promise<void> {
  const { execution_id } = await fleet.client.enqueue(benchRequest('fake'))
  for await (const { event } of fleet.client.stream(execution_id)) if (event.type === 'started') return
}

/** The interpreter itself: version managers put a shell script in front of it that costs 100 ms. */
async function realPython(): Promise<string> {
  const candidate = existsSync('/usr/bin/python3') ? '/usr/bin/python3' : 'python3'
  const { stdout } = await run(candidate, ['-c', 'import sys; print(sys.executable)'])
  return stdout.trim()
}

/** Those of BACKENDS that run a program here; the others are named with their reason. */
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

/** One execution; throws when it did not end ok, so that a broken path is never timed as a fast one. */
export async function execute(context: BenchContext, backend: string, agent?: string): Promise<void> {
  const result = await context.fleet.client.run(benchRequest(backend, agent), { timeoutMs: 60_000 })
  if (!result.ok) throw new Error(`${result.ending}: ${result.error_message ?? result.stderr}`)
  if (backend !== 'fake' && result.stdout !== '2\n')
    throw new Error(`expected "2", got ${JSON.stringify(result.stdout)}`)
}
