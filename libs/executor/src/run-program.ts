/** From the point of no return to the outcome: hand over, wait, take what is left, decide. */
import { availableParallelism } from 'node:os'
import { SpanStatusCode } from '@opentelemetry/api'
import { BOUNDS, CofferdamError, type Outcome, type RunIo } from '@cofferdam/contract'
import type { CollectedArtifacts } from './artifacts.ts'
import { keepCheckpoints } from './checkpoint.ts'
import {
  chargeCollection,
  saveCheckpoint,
  takeArtifacts,
  takeReport,
  takeWorkspace,
} from './collect-files.ts'
import { conclude } from './conclude.ts'
import { watchCpuTime } from './cpu-time.ts'
import { runUnderDeadlines, type RunEnd } from './deadlines.ts'
import { checkedExit } from './exit-evidence.ts'
import { createOutput, type Output } from './output.ts'
import { isFenced, listeners, type ProgramRun } from './program-run.ts'
import { watchProgress } from './progress.ts'
import { ATTRIBUTE, EVENT } from './spans.ts'

/** Asked once: each answer reads the kernel's files about cgroups. */
const CPUS = availableParallelism()

/** Runs the program. Throws only `fenced`, when the attempt came to belong to another worker. */
export async function runProgram(handed: Omit<ProgramRun, 'startedMs' | 'endedMs'>): Promise<Outcome> {
  const startedMs = handed.parts.clock.nowMs()
  const run: ProgramRun = { ...handed, startedMs, endedMs: startedMs }
  const { onText, ...others } = listeners(run)
  const output = createOutput({
    ...run.attempt,
    ...run.parts,
    ...others,
    rules: run.rules,
    onText: (stream, text) => {
      run.task?.onOutput(stream, text)
      onText(stream, text)
    },
  })
  run.spans.run.addEvent(EVENT.started)
  await using checkpoints = keepCheckpoints({
    sandbox: run.held.sandbox,
    checkpoint: run.attempt.checkpoint,
    clock: run.parts.clock,
    ...others,
  })
  const end = await supervise(run, output)
  run.endedMs = run.parts.clock.nowMs()
  output.close()
  await saveCheckpoint(run, end, checkpoints)
  if (end.stop !== null) void run.held.destroy()
  await takeReport(run, end)
  const redact = (text: string): string => output.redact(text)
  const artifacts = await takeArtifacts(run, end, redact)
  if (isFenced(run.attempt)) return await abandon(run, output, artifacts)
  const workspace = await takeWorkspace(run, end, redact)
  const used = await chargeCollection(run, end)
  const exit = used === null ? null : checkedExit(used, run.endedMs - startedMs)
  const outcome = await conclude(run, output, { ...end, exit }, { artifacts, workspace })
  endSpan(run, outcome)
  return outcome
}

async function supervise(
  { parts, attempt, held, spans, egress, task }: ProgramRun,
  output: Output,
): Promise<RunEnd> {
  const { request } = attempt
  using progress = watchProgress({
    heartbeatMs: request.limits.heartbeat_timeout_ms,
    clock: parts.clock,
    onProgress: ({ fraction, message }) =>
      attempt.onProgress?.({
        fraction,
        // Never half of a character.
        message: output
          .redact(message)
          .slice(0, BOUNDS.progressMessageLength)
          .replace(/[\ud800-\udbff]$/, ''),
      }),
  })
  let isHandedOver = false
  // By word of the backend, or by what only a program does that runs.
  const onHandedOver = (): void => {
    if (!isHandedOver) attempt.onHandedOver?.()
    isHandedOver = true
  }
  const io = (signal: AbortSignal): RunIo => ({
    onHandedOver,
    onProgress: (said) => {
      onHandedOver()
      progress.hear(said)
    },
    onOutput: (stream, chunk) => {
      onHandedOver()
      return output.push(stream, chunk)
    },
    ...(request.stdin === undefined ? {} : { stdin: Buffer.from(request.stdin) }),
    maxOutputBytes: output.maxOutputBytes,
    ...(egress === null ? {} : { onConnection: (connection) => egress.accept(connection) }),
    signal,
  })
  using cpuTime = watchCpuTime(held.sandbox, {
    limitMs: request.limits.cpu_time_ms,
    parallel: CPUS,
    clock: parts.clock,
  })
  return await runUnderDeadlines({
    run: async (signal) => {
      const exit = await held.sandbox.run(task?.program ?? request.program, io(signal))
      onHandedOver()
      return exit
    },
    interrupt: () => held.sandbox.interrupt(),
    softTimeoutMs: request.limits.soft_timeout_ms,
    hardTimeoutMs: request.limits.hard_timeout_ms,
    cancelGraceMs: parts.cancelGraceMs,
    stopSignal: attempt.signal,
    outputLimit: output.limitPassed,
    cpuLimit: cpuTime.passed,
    heartbeatLost: progress.silent,
    clock: parts.clock,
    onDeadline: (which) => void spans.run.addEvent(EVENT[which]),
  })
}

/** Another worker ends this attempt: nothing of ours may stay, not even in the blob store. */
async function abandon(run: ProgramRun, output: Output, artifacts: CollectedArtifacts): Promise<never> {
  const { blobs, log } = run.parts
  const deletions = artifacts.stored.map(({ ref }) => blobs.delete(ref))
  for (const deletion of await Promise.allSettled(deletions))
    if (deletion.status === 'rejected') log.warn({ err: deletion.reason }, 'an artifact could not be deleted')
  await output.abandon()
  run.spans.run
    .setAttribute(ATTRIBUTE.errorType, 'fenced')
    .setStatus({ code: SpanStatusCode.ERROR, message: 'fenced' })
    .end()
  throw new CofferdamError('fenced')
}

function endSpan({ spans }: ProgramRun, outcome: Outcome): void {
  spans.run.setAttribute(ATTRIBUTE.ending, outcome.ending)
  if (outcome.exitCode !== null) spans.run.setAttribute(ATTRIBUTE.exitCode, outcome.exitCode)
  if (outcome.ending !== 'ok')
    spans.run
      .setAttribute(ATTRIBUTE.errorType, outcome.ending)
      .setStatus({ code: SpanStatusCode.ERROR, message: outcome.ending })
  spans.run.end()
}
