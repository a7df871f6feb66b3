/** What the steps of one attempt share: `execute` makes it once and passes it down. */
import { stopCauseOf, type Outcome } from '@cofferdam/contract'
import type { ExecutionEgress } from '@cofferdam/egress'
import type { Task } from '@cofferdam/tasks'
import type { Attempt, ExecutorParts } from './attempt.ts'
import { droppedVariables } from './environment.ts'
import type { HeldSandbox, Place } from './held-sandbox.ts'
import type { StreamName } from './output.ts'
import { ATTRIBUTE, startAttemptSpans, type AttemptSpans } from './spans.ts'

/** An attempt from its start, and how far it has come. */
export interface AttemptState {
  parts: ExecutorParts
  /** Its listeners never throw. */
  attempt: Attempt & Required<Pick<Attempt, 'onNotice' | 'onProgress' | 'onHandedOver'>>
  spans: AttemptSpans
  /** Null until a sandbox is open. */
  place: Place | null
  began: boolean
  /** Backends that could not be used. */
  passedOver: { backend: string; reason: string }[]
  /** Variables of the request that the program does not get. */
  envDropped: readonly string[]
}

/** An attempt whose sandbox is ready for its program. */
export interface ProgramRun extends AttemptState {
  held: HeldSandbox
  /** Null without a network. */
  egress: ExecutionEgress | null
  /** Runs in place of the request's program; null when the program itself runs. */
  task: Task | null
}

/** Starts the spans of an attempt, and makes its listeners safe to call. */
export function startAttempt(parts: ExecutorParts, attempt: Attempt): AttemptState {
  const { executionId, attempt: number, request, traceparent } = attempt
  const safely = <T>(call: () => T): T | undefined => {
    try {
      return call()
    } catch (error) {
      parts.log.error({ err: error, executionId, attempt: number }, 'a listener threw')
      return undefined
    }
  }
  return {
    parts,
    attempt: {
      ...attempt,
      onOutput: (stream, text) => safely(() => attempt.onOutput(stream, text)),
      onProgress: (progress) => safely(() => attempt.onProgress?.(progress)),
      onHandedOver: () => safely(() => attempt.onHandedOver?.()),
      onNotice: (message) => safely(() => attempt.onNotice?.(message)),
    },
    spans: startAttemptSpans(traceparent, {
      [ATTRIBUTE.executionId]: executionId,
      [ATTRIBUTE.attempt]: number,
    }),
    place: null,
    began: false,
    passedOver: [],
    envDropped: droppedVariables(request.env ?? {}),
  }
}

/** What every outcome has besides its ending. */
export const besidesEnding = ({
  passedOver,
  envDropped,
}: AttemptState): Pick<Outcome, 'passedOver' | 'envDropped'> => ({
  ...(passedOver.length === 0 ? {} : { passedOver }),
  ...(envDropped.length === 0 ? {} : { envDropped }),
})

export function keyOf({ request, executionId, attempt }: Attempt) {
  return { tenantId: request.tenant_id, executionId, attempt }
}

export const blobKeyOf = (attempt: Attempt) => ({
  ...keyOf(attempt),
  encrypt: attempt.tenant.encrypt_outputs,
})

export function listeners({ attempt, parts }: AttemptState) {
  return {
    onText: (stream: StreamName, text: string) => attempt.onOutput(stream, text),
    onNotice: (message: string) => attempt.onNotice(message),
    onError: (error: unknown, message: string) => parts.log.error({ err: error, ...keyOf(attempt) }, message),
  }
}

export const isFenced = ({ signal }: Attempt): boolean =>
  signal.aborted && stopCauseOf(signal) === 'lock_lost'
