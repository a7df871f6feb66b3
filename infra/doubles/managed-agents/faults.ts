/**
 * Failures that a test or a user injects. Each happens to `times` matching calls from the `nth` on, and is
 * then used up.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { z } from 'zod'

const ROUTE = z.string().max(40)
const WHEN = {
  /** Only calls whose path contains this ID, such as that of a session, an item or a skill. */
  id: z.string().min(1).max(80).optional(),
  /**
   * `nth`: the first matching call that it happens to, counted from now. `times`: how many matching calls in
   * a row.
   */
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
  /** Answers this much later. Ends when the faults are cleared. */
  z.strictObject({
    kind: z.literal('delay'),
    route: ROUTE,
    ms: z.number().int().min(1).max(600_000),
    /** Waits before it acts, and not between acting and the answer. */
    before: z.boolean().default(false),
    ...WHEN,
  }),
  /** Breaks the connection, before or after acting. */
  z.strictObject({ kind: z.literal('drop'), route: ROUTE, acts: z.boolean(), ...WHEN }),
  /** Breaks an event stream after so many events. */
  z.strictObject({ kind: z.literal('cut'), after_events: z.number().int().min(0).max(100_000), ...WHEN }),
  /** Begins an event stream with the whole history, and sends each event twice. */
  z.strictObject({ kind: z.literal('replay'), ...WHEN }),
  /**
   * Sends the events of one step in reverse order. For example, the idle event comes before its tool uses.
   */
  z.strictObject({ kind: z.literal('reorder'), ...WHEN }),
])
export type Fault = z.output<typeof faultSchema>
export type FaultInput = z.input<typeof faultSchema>

/** A fault of one call. */
export type DueFault = Fault & {
  /** Aborts when all faults are cleared. */
  cleared: AbortSignal
}

/** The route whose calls are event streams. */
export const STREAM_ROUTE = 'events.stream'

export class Faults {
  #pending: Fault[] = []
  #cleared = new AbortController()

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

  /** The faults of this call. Counts the call for every fault that it matches. */
  of(route: string, path: string): DueFault[] {
    const now: DueFault[] = []
    const ids = path.split('/')
    for (const fault of this.#pending) {
      if (('route' in fault ? fault.route : STREAM_ROUTE) !== route) continue
      if (fault.id !== undefined && !ids.includes(fault.id)) continue
      if (fault.nth > 1) fault.nth -= 1
      else {
        fault.times -= 1
        now.push({ ...fault, cleared: this.#cleared.signal })
      }
    }
    this.#pending = this.#pending.filter(({ times }) => times > 0)
    return now
  }

  /** Forgets all faults, and ends delays that are under way. */
  clear(): void {
    this.#pending = []
    this.#cleared.abort()
    this.#cleared = new AbortController()
  }
}

/** Waits for the delays among the faults. Rejects when `signal` aborts because the client has gone. */
export async function delayBy(
  faults: readonly DueFault[],
  when: 'before' | 'after',
  signal: AbortSignal,
): Promise<void> {
  for (const fault of faults) {
    if (fault.kind !== 'delay' || fault.before !== (when === 'before')) continue
    const either = AbortSignal.any([signal, fault.cleared])
    await pause(fault.ms, undefined, { signal: either }).catch(() => signal.throwIfAborted())
  }
}
