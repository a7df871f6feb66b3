/** What goes wrong on purpose, as a list: the first entry that fits a call is used up by it. */
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
  /** Only calls of this tool, and whose arguments hold this text. */
  tool?: string
  match?: string
  /** How many calls of that kind pass before it. Default: 0. */
  skip?: number
  /** How many calls it befalls. Default: 1. */
  times?: number
  kind:
    /** An HTTP error of class `error`, without running anything. */
    | 'http'
    /** An exception frame of class `error` after `after` events (default 0: the first frame, without running anything). */
    | 'exception'
    /** An error frame with the code `error`, after `after` events. */
    | 'error-frame'
    /** The answer's last frame ends in its middle. */
    | 'truncated'
    /** The connection breaks, before or after the program ran (for other operations: before or after they took effect). */
    | 'cut-before'
    | 'cut-after'
    /** The stream ends without a frame, after the program ran; or has its result and does not end. */
    | 'empty'
    | 'endless'
    /** The result comes twice, or its stdout grows over two frames, or comes in two parts. */
    | 'duplicate'
    | 'growing'
    | 'split'
    /** A frame of a type that no model has comes first. */
    | 'unknown-event'
    /** Its stdout ends in its middle, or it has no exit code. */
    | 'cut-text'
    | 'no-exit-code'
    /** `result` is the answer, and nothing runs unless `runs` says so. */
    | 'result'
    /** Of a list: its last page has a token, of no characters. */
    | 'empty-token'
    /** Nothing but late, by `ms`, or until `until`. */
    | 'delay'
  error?: string
  message?: string
  /** Of a ValidationException. */
  reason?: string
  field?: string
  after?: number
  /** With an exception as the first frame, or a `result`: the program runs all the same. */
  runs?: boolean
  result?: object
  ms?: number
  until?: Promise<unknown>
}

/** What a fault of kind `http` says. */
export const httpFailure = ({ error, message, reason, field }: Fault): Failure =>
  new Failure(error ?? 'InternalServerException', message ?? 'on purpose', reason, field)

/** Of a fault of kind `delay`: over when the call goes on. */
export async function delayed({ until, ms = 0 }: Fault): Promise<void> {
  await (until ?? sleep(ms))
}

/** The faults still to come. */
export class FaultList {
  #faults: Fault[] = []

  set(faults: readonly Fault[]): void {
    this.#faults = faults.map((fault) => ({ ...fault }))
  }

  get left(): readonly Fault[] {
    return this.#faults
  }

  /** The fault of this call, if any; it is used up. */
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
