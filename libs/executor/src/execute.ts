/**
 * The main path: one attempt, from the wait for memory to its outcome.
 *
 *   way out ─► memory ─► backend ─► sandbox (or the next backend) ─► files ─► begin ─► program ─► outcome ─► sandbox destroyed
 *
 * Before `onBegin` resolves nothing of the user has run: every failure is a provisioning ending and may be retried.
 * After it the program counts as begun, whatever happens. The sandbox and its memory are given back on every path.
 */
import { hasRunSession, reuseOf, unlessAborted, type Outcome } from '@cofferdam/contract'
import type { ExecutionEgress } from '@cofferdam/egress'
import { planTask, type Task } from '@cofferdam/tasks'
import { acquireSandbox } from './acquire-sandbox.ts'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { settlesWithin } from './clock.ts'
import { around, endedEarly, type Reached } from './ended-early.ts'
import { droppedVariables } from './environment.ts'
import { openWayOut, packageAccess, type WayOut } from './execution-egress.ts'
import { operateOnFiles, type FileOperationParts } from './file-operation.ts'
import { guardedAttempt } from './guarded-attempt.ts'
import { placeOf, vendorRefOf, type HeldSandbox } from './held-sandbox.ts'
import { hostMemory } from './host-memory.ts'
import type { MemoryLease } from './memory-budget.ts'
import { prepareSandbox } from './prepare-sandbox.ts'
import { compileRules } from './redaction-rules.ts'
import { runProgram } from './run-program.ts'
import { inRunSessionIfItCan, leftRunSession } from './run-session.ts'
import { specOf } from './sandbox-spec.ts'
import { selectBackends, type Rejection } from './select-backend.ts'
import { ATTRIBUTE, EVENT, SPAN, startAttemptSpans, type AttemptSpans } from './spans.ts'
import { ProvisioningFailure } from './provisioning-failure.ts'
import { withDeadline } from './with-deadline.ts'
import { enterWorkspace } from './workspace-turn.ts'

/** Enough for a list of 100,000 files and some manifests, also from a remote sandbox. */
const PLAN_TIMEOUT_MS = 30_000
/** An answer that takes longer waits for a store; the sandbox is then destroyed beside it. */
const ANSWER_FIRST_MS = 100

/** An attempt on its way to its program. */
interface Starting {
  parts: ExecutorParts
  attempt: Attempt
  spans: AttemptSpans
  reached: Reached
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
  const envDropped = droppedVariables(request.env ?? {})
  const reached: Reached = { place: null, began: false, passedOver: [], envDropped }
  const starting: Starting = { parts, attempt, spans, reached }
  try {
    const wayOut = openWayOut(parts.egress, request, tenant, signal)
    await using egress = wayOut.egress
    using memory = await parts.memory.acquire(hostMemory(parts, request), signal)
    await using held = hasRunSession(request)
      ? await inRunSessionIfItCan(attempt, (asked) => acquire(starting, asked, wayOut, memory))
      : await acquire(starting, attempt, wayOut, memory)
    spans.run.setAttributes(attributesOf(held))
    if (request.program.type === 'files')
      return { ...(await onFiles(parts, attempt, held, request.program)), ...around(reached) }
    const task = await prepare(starting, held, egress)
    signal.throwIfAborted()
    const { ref, isolation } = held.sandbox
    const own = leftRunSession(request, held.sandbox) ? { ownSandbox: true } : {}
    await attempt.onBegin(ref, { backend: ref.backend, isolation, ...own })
    reached.began = true
    const rules = compileRules(tenant.redact, request.env ?? {})
    const outcome = {
      ...(await runProgram({ parts, attempt, held, rules, spans, egress, task })),
      ...around(reached),
    }
    onOutcome(outcome)
    await untilAnswered(parts, attempt, held)
    return outcome
  } catch (error) {
    return endedEarly(parts, attempt, reached, error)
  }
}

/** A sandbox on the first backend that can; throws a provisioning failure when none is left. */
async function acquire(
  { parts, spans, reached }: Omit<Starting, 'attempt'>,
  attempt: Attempt,
  wayOut: WayOut,
  memory: MemoryLease,
): Promise<HeldSandbox> {
  const { request, tenant, executionId, attempt: number, signal } = attempt
  const selection = selectBackends(parts, request, tenant, wayOut.network)
  return await spans.within(SPAN.acquire, async (span) => {
    const opened = await acquireSandbox(
      {
        ...parts,
        proofMs: parts.disposeProofMs,
        onLeaked: ({ ref }, why, ending) => {
          parts.log.error({ err: why, ref, executionId, attempt: number }, 'a sandbox was not proven gone')
          parts.onLeaked({ ref, executionId, attempt: number, why, ending })
        },
        refuses: async (backend) => (await attempt.refusesBackend?.(backend)) ?? null,
        onPassedOver: (rejection) => {
          reached.passedOver.push({ backend: rejection.backend, reason: rejection.reason })
          span.addEvent(EVENT.passedOver, passedOverAttributes(rejection))
        },
      },
      selection,
      specOf(parts, attempt, spans.traceparent, wayOut),
      memory,
      signal,
    )
    reached.place = placeOf(opened)
    span.setAttributes(attributesOf(opened))
    return opened
  })
}

/** Puts the workspace and the request's files there; the task that runs in place of the program, null when that runs. */
async function prepare(
  { parts, attempt, spans }: Starting,
  { sandbox }: HeldSandbox,
  egress: ExecutionEgress | null,
): Promise<Task | null> {
  const { request, tenant, signal } = attempt
  return await spans.within(SPAN.prepare, async () => {
    await enterWorkspace(parts.clock, attempt.workspace, sandbox, signal)
    await prepareSandbox(parts.clock, sandbox, request, signal, attempt.checkpoint?.restore ?? [])
    const timeout = new ProvisioningFailure(
      'prepare_failed',
      `The work directory could not be read in ${PLAN_TIMEOUT_MS} ms.`,
    )
    using bound = withDeadline(parts.clock, signal, PLAN_TIMEOUT_MS, timeout)
    const planned = planTask(request.program, sandbox, {
      tenant,
      packages: packageAccess(parts.egress, egress),
      // Hidden, and no name that an earlier execution of the session could have chosen.
      folder: `.${attempt.executionId}`,
    })
    return await unlessAborted(planned, bound.signal)
  })
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
    secrets: tenant.redact,
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
async function untilAnswered(
  parts: ExecutorParts,
  { request, answered }: Attempt,
  { sandbox }: HeldSandbox,
): Promise<void> {
  if (answered !== undefined && (reuseOf(request) === 'job' || leftRunSession(request, sandbox)))
    await settlesWithin(parts.clock, ANSWER_FIRST_MS, answered)
}

const passedOverAttributes = ({ backend, reason }: Rejection) => ({
  [ATTRIBUTE.backend]: backend,
  [ATTRIBUTE.reason]: reason,
})

function attributesOf({ sandbox }: HeldSandbox) {
  const vendorRef = vendorRefOf(sandbox)
  return {
    [ATTRIBUTE.backend]: sandbox.ref.backend,
    [ATTRIBUTE.isolation]: sandbox.isolation,
    [ATTRIBUTE.warm]: sandbox.warm,
    ...(vendorRef === null ? {} : { [ATTRIBUTE.vendorRef]: vendorRef }),
  }
}
