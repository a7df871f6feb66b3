/** Failures that a test or a user injects. Each happens to the n-th matching call and is then used up. */
import { z } from 'zod'

const ROUTE = z.string().max(40)
/** The first call that it happens to, counted from now, and to how many in a row. */
const WHEN = {
  nth: z.number().int().min(1).max(10_000).default(1),
  times: z.number().int().min(1).max(10_000).default(1),
}

export const faultSchema = z.discriminatedUnion('kind', [
  /** Answers with this status instead of acting. */
  z.strictObject({
    kind: z.literal('status'),
    route: ROUTE,
    status: z.number().int().min(400).max(599),
    /** Sent as `retry-after-ms`, which the SDK honours. */
    retry_after_ms: z.number().int().min(0).max(60_000).optional(),
    ...WHEN,
  }),
  /** Acts and answers this much later. */
  z.strictObject({
    kind: z.literal('delay'),
    route: ROUTE,
    ms: z.number().int().min(1).max(600_000),
    ...WHEN,
  }),
  /** Breaks the connection, before or after acting. */
  z.strictObject({ kind: z.literal('drop'), route: ROUTE, acts: z.boolean(), ...WHEN }),
  /** Breaks an event stream after so many events. */
  z.strictObject({ kind: z.literal('cut'), after_events: z.number().int().min(0).max(100_000), ...WHEN }),
  /** Begins an event stream with the whole history, and sends each event twice. */
  z.strictObject({ kind: z.literal('replay'), ...WHEN }),
  /** Sends the events of one step in reverse order: the idle before its tool uses, running before the result. */
  z.strictObject({ kind: z.literal('reorder'), ...WHEN }),
])
export type Fault = z.output<typeof faultSchema>
export type FaultInput = z.input<typeof faultSchema>

/** The route whose calls are event streams. */
export const STREAM_ROUTE = 'events.stream'

export class Faults {
  #pending: Fault[] = []

  /** `routes` are the names that a fault may name. Throws a `ZodError`, or an error that lists the names. */
  add(input: FaultInput, routes: readonly string[]): void {
    const fault = faultSchema.parse(input)
    if ('route' in fault && !routes.includes(fault.route))
      throw new Error(`no route "${fault.route}". Routes: ${routes.join(', ')}`)
    this.#pending.push(fault)
  }

  /** Faults that have not happened as often as they should. */
  get left(): readonly Fault[] {
    return this.#pending
  }

  /** The faults of this call. Counts the call for every fault of its route. */
  of(route: string): Fault[] {
    const now: Fault[] = []
    for (const fault of this.#pending) {
      if (('route' in fault ? fault.route : STREAM_ROUTE) !== route) continue
      if (fault.nth > 1) fault.nth -= 1
      else {
        fault.times -= 1
        now.push(fault)
      }
    }
    this.#pending = this.#pending.filter(({ times }) => times > 0)
    return now
  }

  clear(): void {
    this.#pending = []
  }
}
