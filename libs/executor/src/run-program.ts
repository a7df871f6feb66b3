/** From the point of no return to the outcome: starts the program, waits, takes its files, concludes. */
import { availableParallelism } from 'node:os'
import { SpanStatusCode } from '@opentelemetry/api'
import { BOUNDS, CofferdamError, type Outcome, type RunIo } from '@cofferdam/contract'
import { isFenced, listeners, type ProgramRun } from './attempt-state.ts'
import { discardArtifacts, type CollectedArtifacts } from './artifacts.ts'
import { keepCheckpoints } from './checkpoint.ts'
import {
  chargeCollection,
  type EndedRun,
  saveCheckpoint,
  takeArtifacts,
  takeReport,
  takeWorkspace,
} from './collect-files.ts'
import { conclude } from './conclude.ts'
import { watchCpuTime } from './cpu-time.ts'
import { runUnderDeadlines, type RunEnd } from './deadlines.ts'
import { createOutput, type Output } from './output.ts'
import { watchProgress } from './progress.ts'
import { compileRules } from './redaction-rules.ts'
import { ATTRIBUTE, EVENT } from './spans.ts'

const CPUS = availableParallelism()

/** Runs the program. Throws only `fenced`, if another worker owns the attempt now. */
export async function runProgram(run: ProgramRun): Promise<Outcome> {
  const { parts, attempt, held, spans } = run
  const output = createOutput({
    ...attempt,
    ...parts,
    ...listeners(run),
    rules: compileRules(attempt.tenant.redact, attempt.request.env ?? {}),
    onText(stream, text) {
      run.task?.onOutput(stream, text)
      return attempt.onOutput(stream, text)
    },
  })
  const redact = (text: string): string => output.redact(text)
  spans.run.addEvent(EVENT.started)
  await using checkpoints = keepCheckpoints({
    sandbox: held.sandbox,
    checkpoint: attempt.checkpoint,
    clock: parts.clock,
    ...listeners(run),
  })
  const startedMs = parts.clock.nowMs()
  const end = await supervise(run, output)
  const ended: EndedRun = { ...run, startedMs, endedMs: parts.clock.nowMs(), end }
  output.close()
  await saveCheckpoint(ended, checkpoints)
  if (end.stop !== null) void held.destroy()
  await takeReport(ended)
  const artifacts = await takeArtifacts(ended, redact)
  if (isFenced(attempt)) return await abandon(run, output, artifacts)
  const workspace = await takeWorkspace(ended, redact)
  const exit = await chargeCollection(ended)
  const wallMs = ended.endedMs - startedMs
  const outcome = await conclude(run, output, { ...end, exit }, { artifacts, workspace, wallMs })
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
        // A cut must not split a character.
        message: output
          .redact(message)
          .slice(0, BOUNDS.progressMessageLength)
          .replace(/[\ud800-\udbff]$/, ''),
      }),
  })
  let isHandedOver = false
  // Called when the backend reports the hand-over, or when the program does something that proves that it
  // runs.
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

/** Another worker owns the attempt, so nothing of this one may stay, not even in the blob store. */
async function abandon(run: ProgramRun, output: Output, artifacts: CollectedArtifacts): Promise<never> {
  await discardArtifacts(run.parts, artifacts)
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
