/** Faults that a test injects. A call takes the first fault of the list that matches it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Failure } from './failure.ts'

export type Operation =
  | 'StartCodeInterpreterSession'
  | 'InvokeCodeInterpreter'
  | 'StopCodeInterpreterSession'
  | 'GetCodeInterpreterSession'
  | 'ListCodeInterpreterSessions'

export interface Fault {
  operation: Operation
  /** `tool`: affects only calls of this tool. `match`: affects only calls whose body contains this text. */
  tool?: string
  match?: string
  /** Number of matching calls that pass before the fault starts. Default: 0. */
  skip?: number
  /** Number of calls that it affects. Default: 1. */
  times?: number
  kind:
    /** An HTTP error of class `error`; nothing runs. */
    | 'http'
    /** An exception frame of class `error` after `after` events. By default nothing runs before it. */
    | 'exception'
    /** An error frame with the code `error`, after `after` events. */
    | 'error-frame'
    /** The end of the answer's last frame is missing. */
    | 'truncated'
    /** The connection breaks before or after the call took effect (for an invocation: the program ran). */
    | 'cut-before'
    | 'cut-after'
    /** After the program ran, the stream ends without a frame, or has its result and never ends. */
    | 'empty'
    | 'endless'
    /** The result comes twice, or its stdout grows over two frames, or its stdout comes in two parts. */
    | 'duplicate'
    | 'growing'
    | 'split'
    /** The first frame has a type that is in no model. */
    | 'unknown-event'
    /** The end of the result's stdout is missing, or the result has no exit code. */
    | 'cut-text'
    | 'no-exit-code'
    /** The answer is `result`. Nothing runs unless `runs` is true. */
    | 'result'
    /** The last page of a list has an empty token. */
    | 'empty-token'
    /** The call is delayed by `ms`, or until `until`. */
    | 'delay'
  error?: string
  message?: string
  /** For a ValidationException. */
  reason?: string
  field?: string
  after?: number
  /** With an exception or error frame as first frame, or with a `result`: the program runs nevertheless. */
  runs?: boolean
  result?: object
  ms?: number
  until?: Promise<unknown>
}

/** The error of a fault of kind `http`. */
export const httpFailure = ({ error, message, reason, field }: Fault): Failure =>
  new Failure(error ?? 'InternalServerException', message ?? 'on purpose', reason, field)

/** Waits as long as a fault of kind `delay` says. */
export async function delayed({ until, ms = 0 }: Fault): Promise<void> {
  await (until ?? sleep(ms))
}

/** The faults that have not happened as often as asked. */
export class FaultList {
  #faults: Fault[] = []

  set(faults: readonly Fault[]): void {
    this.#faults = faults.map((fault) => ({ ...fault }))
  }

  get left(): readonly Fault[] {
    return this.#faults
  }

  /** Uses up and returns the fault of this call, if there is one. */
  take(operation: Operation, tool = '', text = ''): Fault | null {
    const fault = this.#faults.find(
      (one) =>
        one.operation === operation &&
        (one.tool === undefined || one.tool === tool) &&
        (one.match === undefined || text.includes(one.match)),
    )
    if (fault === undefined) return null
    if ((fault.skip ?? 0) > 0) {
      fault.skip = (fault.skip ?? 0) - 1
      return null
    }
    fault.times = (fault.times ?? 1) - 1
    if (fault.times <= 0) this.#faults = this.#faults.filter((one) => one !== fault)
    return fault
  }
}
