/** From the point of no return to the outcome: hand over, wait, take what is left, decide. */
import { availableParallelism } from 'node:os'
import { SpanStatusCode } from '@opentelemetry/api'
import {
  BOUNDS,
  CofferdamError,
  isCofferdamError,
  stopCauseOf,
  type Exit,
  type Outcome,
  type RunIo,
  type WorkspaceReport,
} from '@cofferdam/contract'
import { withDeadline } from './with-deadline.ts'
import { keepCheckpoints, type CheckpointKeeper } from './checkpoint.ts'
import { collectArtifacts, type StoredArtifact } from './artifacts.ts'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { runUnderDeadlines, type RunEnd } from './deadlines.ts'
import { watchCpuTime } from './cpu-time.ts'
import { checkedExit } from './exit-evidence.ts'
import { failureReason } from './failure-reason.ts'
import type { ExecutionEgress } from '@cofferdam/egress'
import { placeOf, type HeldSandbox } from './held-sandbox.ts'
import { createOutput, type Output, type StreamName } from './output.ts'
import { watchProgress } from './progress.ts'
import type { RedactionRules } from './redaction-rules.ts'
import { ATTRIBUTE, EVENT, SPAN, type AttemptSpans } from './spans.ts'
import { createPrintedTail } from './tasks/printed-tail.ts'
import type { Task } from './tasks/task.ts'
import { decideEnding, NOT_BEGUN, SESSION_TIMEOUT, type Evidence } from './verdict.ts'
import { leaveWorkspace } from './workspace-turn.ts'

/** 16 MiB of artifacts in 256 files, from a remote sandbox; the program's own time is over by then. */
const ARTIFACTS_TIMEOUT_MS = 30_000
/** Asked once: each answer reads the kernel's files about cgroups. */
const CPUS = availableParallelism()

export interface ProgramRun {
  parts: ExecutorParts
  attempt: Attempt
  held: HeldSandbox
  rules: RedactionRules
  spans: AttemptSpans
  /** Null without a network. */
  egress: ExecutionEgress | null
  /** Runs in place of the request's program; null when that is what runs. */
  task: Task | null
}

/** Runs the program. Throws only `fenced`, when the attempt came to belong to another worker. */
export async function runProgram(run: ProgramRun): Promise<Outcome> {
  const printed = createPrintedTail()
  const { onText, ...others } = listeners(run)
  const output = createOutput({
    ...run.attempt,
    ...run.parts,
    ...others,
    rules: run.rules,
    onText: (stream, text) => {
      if (run.task !== null) printed.add(stream, text)
      onText(stream, text)
    },
  })
  const startedMs = run.parts.clock.nowMs()
  run.spans.run.addEvent(EVENT.started)
  await using checkpoints = keepCheckpoints({
    sandbox: run.held.sandbox,
    checkpoint: run.attempt.checkpoint,
    clock: run.parts.clock,
    ...others,
  })
  const end = await supervise(run, output)
  output.close()
  if (leavesCheckpoint(end)) await saveCheckpoint(run, checkpoints)
  if (end.stop !== null) void run.held.destroy()
  await takeReport(run, end)
  const artifacts = await takeArtifacts(run, end)
  if (isFenced(run.attempt)) return await abandon(run, output, artifacts)
  const workspace = await takeWorkspace(run, end)
  const exit = end.exit === null ? null : checkedExit(end.exit, run.parts.clock.nowMs() - startedMs)
  const outcome = await conclude(run, output, { ...end, exit }, artifacts, printed.text())
  if (workspace !== undefined) outcome.workspace = workspace
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
  const io = (signal: AbortSignal): RunIo => ({
    onProgress: (said) => progress.hear(said),
    onOutput: (stream, chunk) => output.push(stream, chunk),
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
    run: (signal) => held.sandbox.run(task?.program ?? request.program, io(signal)),
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

/** A program that did not end well, in a sandbox that still answers; also one that a cancel or a drain let end by itself. */
const leavesCheckpoint = ({ exit, stop, softStopped }: RunEnd): boolean =>
  exit !== null &&
  stop !== 'cancelled' &&
  (exit.exitCode !== 0 || exit.signal !== null || stop !== null || softStopped)

async function saveCheckpoint({ parts, attempt }: ProgramRun, keeper: CheckpointKeeper): Promise<void> {
  if (attempt.checkpoint === undefined || isFenced(attempt)) return
  const timeout = new Error(`a checkpoint took longer than ${ARTIFACTS_TIMEOUT_MS} ms`)
  // Not the attempt's own signal: a drain is what checkpoints are for.
  using bound = withDeadline(parts.clock, new AbortController().signal, ARTIFACTS_TIMEOUT_MS, timeout)
  await keeper.atEnd(bound.signal)
}

async function takeReport({ parts, attempt, held, task }: ProgramRun, end: RunEnd): Promise<void> {
  if (task === null || end.exit === null || end.stop !== null) return
  const timeout = new Error(`a report took longer than ${ARTIFACTS_TIMEOUT_MS} ms`)
  using bound = withDeadline(parts.clock, attempt.signal, ARTIFACTS_TIMEOUT_MS, timeout)
  await task.take(held.sandbox, bound.signal)
}

async function takeArtifacts(run: ProgramRun, end: RunEnd): Promise<StoredArtifact[]> {
  const { parts, attempt, held } = run
  const globs = attempt.request.artifacts ?? []
  if (globs.length === 0 || end.exit === null || end.stop !== null) return []
  const timeout = new Error(`artifacts took longer than ${ARTIFACTS_TIMEOUT_MS} ms`)
  using bound = withDeadline(parts.clock, attempt.signal, ARTIFACTS_TIMEOUT_MS, timeout)
  return await collectArtifacts({
    sandbox: held.sandbox,
    globs,
    program: attempt.request.program,
    blobs: parts.blobs,
    key: { ...keyOf(attempt), encrypt: attempt.tenant.encrypt_outputs },
    signal: bound.signal,
    ...listeners(run),
  })
}

/** Last of what is taken: the workspace then holds what the result says. */
async function takeWorkspace(run: ProgramRun, end: RunEnd): Promise<WorkspaceReport | undefined> {
  const { parts, attempt, held } = run
  if (attempt.workspace === undefined) return undefined
  const leaving = {
    clock: parts.clock,
    turn: attempt.workspace,
    sandbox: held.sandbox,
    end,
    signal: attempt.signal,
    ...listeners(run),
  }
  return await run.spans.within(SPAN.workspace, () => leaveWorkspace(leaving))
}

async function conclude(
  { attempt, held, parts, egress, task }: ProgramRun,
  output: Output,
  end: RunEnd,
  artifacts: StoredArtifact[],
  printed: string,
): Promise<Outcome> {
  const { exit } = end
  if (end.failure !== null) parts.log.warn({ err: end.failure, ...keyOf(attempt) }, 'the sandbox was lost')
  const value = output.value(exit?.valueJson)
  const { stdout, stderr } = await output.finish(exit?.outputBytes ?? null)
  const { limits } = attempt.request
  const evidence: Evidence = {
    ...end,
    lost: end.failure === null ? null : lossOf(end.failure),
    outputLimitPassed:
      limits.on_output_limit === 'kill' &&
      (stdout.bytes > limits.stdout_bytes || stderr.bytes > limits.stderr_bytes),
    lastErrorLine: output.lastErrorLine(),
  }
  const verdict = decideEnding(evidence)
  const refusal = isCofferdamError(end.failure) ? output.redact(end.failure.message) : ''
  const facts = { limits, exit, lastErrorLine: evidence.lastErrorLine, refusal }
  const concluded = task?.conclude(verdict, facts, printed, (text) => output.redact(text)) ?? {
    ...verdict,
    failureReason: failureReason(verdict, facts),
  }
  return {
    ...concluded,
    exitCode: exit?.exitCode ?? null,
    signal: exit?.signal ?? null,
    stdout,
    stderr,
    ...(value === undefined ? {} : { value }),
    usage: exit?.usage ?? null,
    artifacts,
    ...placeOf(held),
    ...(exit?.serviceExecutionTime === undefined ? {} : { serviceExecutionTime: exit.serviceExecutionTime }),
    redactionCount: output.redactionCount,
    began: verdict.reason !== NOT_BEGUN,
    outboundHosts: [...(egress?.hosts ?? [])],
    sessionId: held.sandbox.session?.id ?? null,
  }
}

/**
 * A backend that saw the kernel kill for memory says so in the error's details, for the channel may close first; so does one whose vendor
 * ended the sandbox at its time, or refused the program.
 */
function lossOf(failure: unknown): NonNullable<Evidence['lost']> {
  if (!isCofferdamError(failure)) return { reason: 'internal', oomKills: 0 }
  const { oomKills, reason } = failure.details as { oomKills?: Exit['oomKills']; reason?: unknown }
  return {
    reason: reason === SESSION_TIMEOUT || reason === NOT_BEGUN ? reason : failure.code,
    oomKills: typeof oomKills === 'number' ? oomKills : 0,
  }
}

const isFenced = ({ signal }: Attempt): boolean => signal.aborted && stopCauseOf(signal) === 'lock_lost'

/** Another worker ends this attempt: nothing of ours may stay, not even in the blob store. */
async function abandon(run: ProgramRun, output: Output, artifacts: StoredArtifact[]): Promise<never> {
  const { blobs, log } = run.parts
  const deletions = artifacts.map(({ ref }) => blobs.delete(ref))
  for (const deletion of await Promise.allSettled(deletions))
    if (deletion.status === 'rejected') log.warn({ err: deletion.reason }, 'an artifact could not be deleted')
  await output.abandon()
  run.spans.run.setStatus({ code: SpanStatusCode.ERROR, message: 'fenced' }).end()
  throw new CofferdamError('fenced')
}

function endSpan({ spans }: ProgramRun, outcome: Outcome): void {
  spans.run.setAttribute(ATTRIBUTE.ending, outcome.ending)
  if (outcome.exitCode !== null) spans.run.setAttribute(ATTRIBUTE.exitCode, outcome.exitCode)
  if (outcome.ending !== 'ok') spans.run.setStatus({ code: SpanStatusCode.ERROR, message: outcome.ending })
  spans.run.end()
}

function keyOf({ request, executionId, attempt }: Attempt) {
  return { tenantId: request.tenant_id, executionId, attempt }
}

function listeners({ attempt, parts }: ProgramRun) {
  return {
    onText: (stream: StreamName, text: string) => attempt.onOutput(stream, text),
    onNotice: (message: string) => attempt.onNotice?.(message),
    onError: (error: unknown, message: string) => parts.log.error({ err: error, ...keyOf(attempt) }, message),
  }
}
