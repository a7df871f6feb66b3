/** What an execution waits for, as the scheduler's state says at this moment (lua/why.lua). */
import { z } from 'zod'

const count = z.number().min(0)
/** Milliseconds since 1970. */
const moment = z.number()
/** Since when the execution could start. Absent while it is delayed, and after it was released. */
const waiting = { since: moment.optional() }
/** `eta_ms`: -1 if unknown. `fleet_…`: totals of all workers that can run the execution. */
const place = { ahead: count, eta_ms: z.number(), fleet_running: count, fleet_slots: count }

/** One fact, by its code. */
export const waitFactSchema = z.discriminatedUnion('code', [
  /** The execution may not start before `until`. `returned`: a worker put it back to wait until then. */
  z.object({ code: z.literal('delayed'), until: moment, returned: z.boolean(), ...waiting }),
  /** `ahead` executions of its session come first. Of these, `execution_id` runs or is next. */
  z.object({ code: z.literal('session_turn'), execution_id: z.string(), ahead: count, ...waiting }),
  /** Only this worker has its session's sandbox. `ahead`: how many others will get that worker first. */
  z.object({ code: z.literal('session_worker'), worker_id: z.string(), ahead: count, ...waiting }),
  /** All executions of its tenant wait: a cap is used up, or policy or caps could not be read. */
  z.object({ code: z.literal('tenant_parked'), until: moment, ...waiting }),
  /**
   * None of the live workers can run it. `need`: the words that it needs of a worker (needs.ts). `until`: the
   * time at which it is refused if no such worker comes. Absent when there is no worker at all.
   */
  z.object({
    code: z.literal('no_worker'),
    fleet_workers: count,
    need: z.string(),
    until: moment.optional(),
    ...waiting,
  }),
  /** Its tenant runs as many as its concurrency limit allows. */
  z.object({ code: z.literal('tenant_concurrency'), running: count, limit: count, ...waiting }),
  /**
   * `ahead`: earlier executions of its agent. `other_agents`: queued executions of the tenant's other agents,
   * with which its agent takes turns.
   */
  z.object({ code: z.literal('agent_turn'), ahead: count, other_agents: count, ...waiting }),
  /** Its position among the waiting executions of all tenants. */
  z.object({ code: z.literal('turn'), weight: z.number(), ...place, ...waiting }),
  /** It is released and waits in the run queue for a free slot. */
  z.object({ code: z.literal('worker_slot'), ...place, ...waiting }),
  /** A worker has it, checks its policy and caps, and opens its sandbox. */
  z.object({ code: z.literal('starting'), worker_id: z.string(), ...waiting }),
])
export type WaitFact = z.infer<typeof waitFactSchema>

/** Reads the reply of why.lua. */
export const waitFactsOf = (json: string): WaitFact[] => z.array(waitFactSchema).parse(JSON.parse(json))
