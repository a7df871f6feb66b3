/**
 * The main path: one attempt, from the wait for memory to its outcome.
 *
 *   way out ─► memory ─► backend ─► sandbox (or the next backend) ─► files ─► begin ─► program ─► outcome ─► sandbox destroyed
 *
 * Before `onBegin` resolves nothing of the user has run: every failure is a provisioning ending and may be retried.
 * After it the program counts as begun, whatever happens. The sandbox and its memory are given back on every path.
 */
import {
  CofferdamError,
  StopReason,
  isCofferdamError,
  outcomeWithoutRun,
  preloadOf,
  reuseOf,
  stopCauseOf,
  type Network,
  type Outcome,
  type StopCause,
} from '@cofferdam/contract'
import { acquireSandbox } from './acquire-sandbox.ts'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { settlesWithin } from './clock.ts'
import { programEnvironment } from './environment.ts'
import { openWayOut } from './execution-egress.ts'
import { operateOnFiles, type FileOperationParts } from './file-operation.ts'
import { guardedAttempt } from './guarded-attempt.ts'
import { placeOf, type HeldSandbox, type Place } from './held-sandbox.ts'
import { hostMemory } from './host-memory.ts'
import { prepareSandbox } from './prepare-sandbox.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { compileRules } from './redaction-rules.ts'
import { runProgram } from './run-program.ts'
import { selectBackends, type Rejection } from './select-backend.ts'
import { packageAccess } from './tasks/package-access.ts'
import { TaskRefusal } from './tasks/task-refusal.ts'
import { carrierOf, planTask, refuseTask } from './tasks/task.ts'
import { ATTRIBUTE, EVENT, SPAN, startAttemptSpans, type AttemptSpans } from './spans.ts'
import { enterWorkspace } from './workspace-turn.ts'

/** An answer that takes longer waits for a store; the sandbox is then destroyed beside it. */
const ANSWER_FIRST_MS = 100

/** How far an attempt came: what its outcome can tell when it ends early. */
interface Progress {
  place: Place | null
  began: boolean
  passedOver: { backend: string; reason: string }[]
}

/**
 * Runs one attempt and destroys its sandbox. `onOutcome` hears the outcome of a program as soon as it is known, while
 * the sandbox is still being destroyed. Rejects with `fenced`, and with the StopReason `drain` before the program began.
 */
export async function execute(
  parts: ExecutorParts,
  asked: Attempt,
  onOutcome: (outcome: Outcome) => void = () => undefined,
): Promise<Outcome> {
  const attempt = guardedAttempt(asked, parts.log)
  const { request, tenant, signal } = attempt
  const spans = startAttemptSpans(attempt.traceparent, {
    [ATTRIBUTE.executionId]: attempt.executionId,
    [ATTRIBUTE.attempt]: attempt.attempt,
  })
  const progress: Progress = { place: null, began: false, passedOver: [] }
  try {
    refuseTask(request, tenant, parts.egress)
    const wayOut = openWayOut(parts.egress, request, tenant, signal)
    await using egress = wayOut.egress
    using memory = await parts.memory.acquire(hostMemory(parts, request), signal)
    const selection = selectBackends(parts, request, tenant, wayOut.network)
    await using held = await spans.within(SPAN.acquire, async (span) => {
      const opened = await acquireSandbox(
        {
          ...acquireParts(parts, attempt),
          refuses: async (backend) => (await attempt.refusesBackend?.(backend)) ?? null,
          onPassedOver: (rejection) => {
            progress.passedOver.push({ backend: rejection.backend, reason: rejection.reason })
            span.addEvent(EVENT.passedOver, passedOverAttributes(rejection))
          },
        },
        selection,
        specOf(parts, attempt, spans, wayOut.network),
        memory,
        signal,
      )
      progress.place = placeOf(opened)
      span.setAttributes(attributesOf(opened))
      return opened
    })
    spans.run.setAttributes(attributesOf(held))
    if (request.program.type === 'files')
      return { ...(await onFiles(parts, attempt, held, request.program)), ...fallback(progress) }
    const task = await spans.within(SPAN.prepare, async () => {
      await enterWorkspace(parts.clock, attempt.workspace, held.sandbox, signal)
      await prepareSandbox(parts.clock, held.sandbox, request, signal, attempt.checkpoint?.restore ?? [])
      return await planTask({
        program: request.program,
        sandbox: held.sandbox,
        tenant,
        packages: packageAccess(parts.egress, egress),
        // Hidden, and no name that an earlier execution of the session could have chosen.
        folder: `.${attempt.executionId}`,
        clock: parts.clock,
        signal,
      })
    })
    signal.throwIfAborted()
    const { ref, isolation } = held.sandbox
    await attempt.onBegin(ref, { backend: ref.backend, isolation })
    progress.began = true
    const rules = compileRules(tenant.redact, request.env ?? {})
    const outcome = {
      ...(await runProgram({ parts, attempt, held, rules, spans, egress, task })),
      ...fallback(progress),
    }
    onOutcome(outcome)
    await untilAnswered(parts, attempt)
    return outcome
  } catch (error) {
    return endedEarly(parts, attempt, progress, error)
  }
}

/** Nothing of the user runs: there is no point of no return, and a worker that dies here leaves it to the next. */
async function onFiles(
  parts: ExecutorParts,
  attempt: Attempt,
  held: HeldSandbox,
  program: FileOperationParts['program'],
): Promise<Outcome> {
  const { request, executionId, signal, tenant } = attempt
  const { sandbox, openMs } = held
  const outcome = await operateOnFiles({
    program,
    sandbox,
    scope: request.session?.scope ?? 'none',
    blobs: parts.blobs,
    key: {
      tenantId: request.tenant_id,
      executionId,
      attempt: attempt.attempt,
      encrypt: tenant.encrypt_outputs,
    },
    write: async () => await prepareSandbox(parts.clock, sandbox, request, signal),
    clock: parts.clock,
    signal,
  })
  return { ...outcome, openMs }
}

/**
 * The end of a single-use sandbox costs CPU in daemon and kernel that the answer is just made with (docker: 13 of 20 ms, measured).
 * A cell is cleaned at once, for its next execution may be waiting.
 */
async function untilAnswered(parts: ExecutorParts, { request, answered }: Attempt): Promise<void> {
  if (answered !== undefined && reuseOf(request) === 'job')
    await settlesWithin(parts.clock, ANSWER_FIRST_MS, answered)
}

function specOf(parts: ExecutorParts, attempt: Attempt, spans: AttemptSpans, network: Network) {
  const { request } = attempt
  const { env, dropped } = programEnvironment(request.env ?? {}, spans.traceparent)
  if (dropped.length > 0)
    attempt.onNotice?.(
      `Left out of the environment, for they change how programs start: ${dropped.join(', ')}.`,
    )
  return {
    sandboxId: parts.newSandboxId(),
    executionId: attempt.executionId,
    attempt: attempt.attempt,
    tenantId: request.tenant_id,
    owner: attempt.owner,
    program: carrierOf(request.program).program,
    limits: request.limits,
    network,
    env,
    preload: preloadOf(request),
    reuse: reuseOf(request),
    session: sessionOf(request),
  }
}

function sessionOf({ session }: Attempt['request']) {
  return session === undefined
    ? null
    : { key: session.key, scope: session.scope, idleMs: session.idle_ms ?? null }
}

function acquireParts(parts: ExecutorParts, { executionId, attempt }: Attempt) {
  return {
    ...parts,
    proofMs: parts.disposeProofMs,
    onLeaked: ({ ref }: HeldSandbox['sandbox'], why: unknown, ending: Promise<void>) => {
      parts.log.error({ err: why, ref, executionId, attempt }, 'a sandbox was not proven gone')
      parts.onLeaked({ ref, executionId, attempt, why, ending })
    },
  }
}

const fallback = ({ passedOver }: Progress): Pick<Outcome, 'passedOver'> =>
  passedOver.length === 0 ? {} : { passedOver }

const passedOverAttributes = ({ backend, reason }: Rejection) => ({
  [ATTRIBUTE.backend]: backend,
  [ATTRIBUTE.reason]: reason,
})

function attributesOf({ sandbox }: HeldSandbox) {
  return {
    [ATTRIBUTE.backend]: sandbox.ref.backend,
    [ATTRIBUTE.isolation]: sandbox.isolation,
    [ATTRIBUTE.warm]: sandbox.warm,
  }
}

/** The outcome of an attempt that did not come to its program, or of a fault of our own after it. */
function endedEarly(parts: ExecutorParts, attempt: Attempt, progress: Progress, error: unknown): Outcome {
  if (isCofferdamError(error) && error.code === 'fenced') throw error
  const ended = (...[ending, reason, message]: Parameters<typeof outcomeWithoutRun>): Outcome => ({
    ...outcomeWithoutRun(ending, reason, message),
    ...progress.place,
    ...fallback(progress),
    began: progress.began,
  })
  const cause = progress.began ? null : stopCauseFrom(error, attempt.signal)
  if (cause === 'lock_lost') throw new CofferdamError('fenced', undefined, { cause: error })
  if (cause === 'drain') throw error instanceof StopReason ? error : new StopReason('drain')
  if (cause !== null) return ended('cancelled', 'cancelled', 'The execution was cancelled before it began.')
  if (error instanceof TaskRefusal) return ended(error.ending, error.reason, error.message)
  if (error instanceof ProvisioningFailure) return ended(error.ending, error.reason, error.message)
  const { executionId } = attempt
  parts.log.error({ err: error, executionId, attempt: attempt.attempt }, 'an attempt failed on our side')
  if (progress.began)
    return ended('sandbox_lost', 'internal', 'Something failed on our side while the program ran.')
  return isCofferdamError(error)
    ? ended('provisioning', error.code, error.message)
    : ended('provisioning', 'internal', 'Something failed on our side before the program ran.')
}

function stopCauseFrom(error: unknown, signal: AbortSignal): StopCause | null {
  if (error instanceof StopReason) return error.stopCause
  return signal.aborted ? stopCauseOf(signal) : null
}
