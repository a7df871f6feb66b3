/**
 * What the agent of each session in the crowd asks for, what its user does, and what goes wrong meanwhile.
 */
import fc from 'fast-check'
import type { FaultInput } from '../../infra/doubles/managed-agents/faults.ts'
import type { Step, ToolUse } from '../../infra/doubles/managed-agents/scripted-agent.ts'
import { effect } from './served-fleet.ts'

/** Kinds of calls: what the agent asks for, and who answers it. */
export const KINDS = [
  'plain',
  /** Prints 1 MiB. The answer has only the end of the output. */
  'long',
  /** Prints what a process of the sandbox can find out about the others. */
  'prying',
  'allowed by its user',
  'refused by its user',
  'denied',
  /** A call for another client, whose part the test plays. */
  'unknown',
  'custom',
] as const
export type Kind = (typeof KINDS)[number]

export interface PlannedCall {
  kind: Kind
  mark: string
}

export interface Plan {
  /** The calls of each step. Two calls are asked for at once. */
  steps: PlannedCall[][]
  troubles: Trouble[]
  /** How the session goes on after its last step. */
  end: 'idle' | 'terminated' | 'second turn'
}

/**
 * A fault of the control plane. Or, after `atEvent` events of the session, the leases of its items expire or
 * it gets a second item.
 */
export type Trouble =
  | { fault: FaultInput; at: 'session' | 'item' }
  | { atEvent: number; strike: 'expire' | 'second item' }

/** Whether the call runs in the sandbox of its session. */
export const isOurs = ({ kind }: PlannedCall): boolean =>
  kind !== 'unknown' && kind !== 'custom' && kind !== 'denied' && kind !== 'refused by its user'

const PRY =
  'env; set; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr "\\0" "\\n"; grep -rsl sk-ant- /tmp /mnt'

export function useOf({ kind, mark }: PlannedCall): ToolUse {
  const input = { command: effect(mark, commandOf(kind)) }
  switch (kind) {
    case 'unknown':
      return { name: 'crm_lookup', input: { mark } }
    case 'custom':
      return { name: 'crm_lookup', input: { mark }, custom: true }
    case 'denied':
      return { name: 'bash', input, evaluated_permission: 'deny' }
    case 'allowed by its user':
    case 'refused by its user':
      return { name: 'bash', input, evaluated_permission: 'ask' }
    default:
      return { name: 'bash', input }
  }
}

const commandOf = (kind: Kind): string =>
  kind === 'long' ? 'yes 0123456789abcde | head -c 1048576' : kind === 'prying' ? PRY : ':'

export const stepsOf = ({ steps, end }: Plan): Step[] => [
  ...steps.map((calls): Step => ({ tool_uses: calls.map(useOf) })),
  ...(end === 'terminated' ? [{ terminate: true } as const] : []),
  ...(end === 'second turn'
    ? [{ idle: 'end_turn' } as const, { tool_use: useOf({ kind: 'plain', mark: SECOND_TURN }) }]
    : []),
]

/** The mark of the call in a second turn. */
export const SECOND_TURN = 'second-turn'

const few = fc.integer({ min: 1, max: 4 })
const often = fc.integer({ min: 1, max: 2 })

const troubles: fc.Arbitrary<Trouble> = fc.oneof(
  faultsOf('session', {
    kind: fc.constant('status' as const),
    route: fc.constant('events.send'),
    status: fc.constantFrom(429, 529),
    nth: few,
    times: few,
  }),
  faultsOf('session', {
    kind: fc.constant('drop' as const),
    route: fc.constant('events.send'),
    acts: fc.boolean(),
    nth: few,
  }),
  faultsOf('session', { kind: fc.constant('cut' as const), after_events: fc.nat({ max: 8 }), times: few }),
  faultsOf('session', { kind: fc.constantFrom('replay' as const, 'reorder' as const), times: often }),
  // The refused heartbeat makes the dispatcher give the item up. Nobody serves it until its lease ends.
  faultsOf('item', {
    kind: fc.constant('status' as const),
    route: fc.constant('work.heartbeat'),
    status: fc.constant(412),
    nth: often,
  }),
  fc.record({
    atEvent: fc.integer({ min: 1, max: 16 }),
    strike: fc.constantFrom('expire' as const, 'second item' as const),
  }),
)

function faultsOf<T extends object>(
  at: 'session' | 'item',
  of: { [K in keyof T]: fc.Arbitrary<T[K]> },
): fc.Arbitrary<Trouble> {
  return fc.record(of).map((fault) => ({ at, fault: fault as unknown as FaultInput }))
}

const markOf = (kind: Kind, ...at: number[]): string => `${at.join('-')}-${kind.replaceAll(' ', '-')}`

export const plans: fc.Arbitrary<Plan> = fc.record({
  steps: fc
    .array(fc.array(fc.constantFrom(...KINDS), { minLength: 1, maxLength: 2 }), {
      minLength: 1,
      maxLength: 3,
    })
    .map((steps) => steps.map((kinds, s) => kinds.map((kind, n) => ({ kind, mark: markOf(kind, s, n) })))),
  troubles: fc.array(troubles, { maxLength: 2 }),
  end: fc.constantFrom('idle', 'terminated', 'second turn'),
})
