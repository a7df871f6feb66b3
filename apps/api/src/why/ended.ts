/** The facts of an ended execution: why it was refused, where it ran, and how it ended. */
import type { AuditRow, CapDimension, Ending, ExecutionResult, WhyFact } from '@cofferdam/contract'
import type { TenantPolicyEvent } from '@cofferdam/store'

/** `row`: its last audit row. Null while Postgres does not have it. `events`: of its tenant, newest first. */
export interface Ended {
  result: ExecutionResult
  row: AuditRow | null
  events: readonly TenantPolicyEvent[]
}

export function endedFacts({ result, row, events }: Ended): WhyFact[] {
  const refused = refusalOf(result, events)
  return [...(refused === null ? [] : [refused]), endingOf(result), ...backendFacts(result, row)]
}

/** Null if a program ran, or could have run. */
function refusalOf(result: ExecutionResult, events: readonly TenantPolicyEvent[]): WhyFact | null {
  const { ending, reason, dimension, resets_at: until, error_message: text = ending } = result
  if (ending !== 'cap_exceeded' && ending !== 'policy_denied' && ending !== 'provisioning') return null
  if (dimension === undefined)
    return { question: 'refused', code: reason ?? ending, text, figures: {}, action: ADVICE[ending] }
  const use = useOf(result, dimension)
  const event = events.find((one) => changes(one, dimension))
  return {
    question: 'refused',
    code: dimension,
    text: event === undefined ? text : `${text} ${event.actor} set this cap at ${event.created_at}.`,
    figures: {
      ...(use === null ? {} : { used: use.used, limit: use.limit }),
      kill_switch: result.kill_switch === true,
    },
    ...(until === undefined ? {} : { until }),
    action:
      result.kill_switch === true
        ? 'An operator switched it off with a cap of 0. Raise the cap to switch it on.'
        : ADVICE.cap_exceeded,
  }
}

/** Whether an event gave another value to a field of this cap. */
function changes({ event_type: type, before, after }: TenantPolicyEvent, dimension: CapDimension): boolean {
  if (type !== 'caps') return false
  const [was, is] = [before, after] as [Record<string, unknown> | null, Record<string, unknown> | null]
  return Object.keys(CAP_OF).some(
    (name) => CAP_OF[name] === dimension && JSON.stringify(was?.[name]) !== JSON.stringify(is?.[name]),
  )
}

const CAP_OF: Readonly<Record<string, CapDimension>> = {
  tenant_daily: 'tenant_daily',
  agent_hourly: 'agent_hourly',
  agents: 'agent_hourly',
  tenant_daily_cpu_seconds: 'tenant_daily_cpu',
  tenant_daily_cost: 'tenant_daily_cost',
  rate_per_second: 'tenant_rate',
  burst: 'tenant_rate',
}

const useOf = ({ caps }: ExecutionResult, dimension: CapDimension) =>
  caps === null || dimension === 'unknown' || dimension === 'tenant_rate' ? null : (caps[dimension] ?? null)

function endingOf(result: ExecutionResult): WhyFact {
  const { ending, exit_code: exitCode, signal, usage, attempt } = result
  const figures = {
    attempt,
    duration_ms: result.duration_ms,
    ...(exitCode === null ? {} : { exit_code: exitCode }),
    ...(signal === null ? {} : { signal }),
    ...Object.fromEntries(
      Object.entries(usage ?? {}).filter(([, value]) => typeof value === 'number') as [string, number][],
    ),
  }
  const text = result.error_message ?? 'The program exited with status 0.'
  const advice = ADVICE[ending]
  return {
    question: 'ending',
    code: ending,
    text,
    figures,
    ...(advice === '' ? {} : { action: advice }),
  }
}

/** Reasons why a backend did not fit the request. For any other reason, it could not open a sandbox. */
const WHY_PASSED: Readonly<Record<string, string>> = {
  isolation_unavailable: 'isolates less than its tenant and its request demand',
  capability_missing: 'does not offer all that the request needs',
}

/** The backends that were passed over, as the audit row has them, and the one that ran the execution. */
function backendFacts({ backend, isolation }: ExecutionResult, row: AuditRow | null): WhyFact[] {
  const passed = (row?.passed_over ?? '').split(', ').filter((one) => one !== '')
  const facts = passed.map((one): WhyFact => {
    const [name = '', ...words] = one.split(' ')
    const reason = words.join(' ')
    return {
      question: 'backend',
      code: 'passed_over',
      text: `${name} came first, but ${WHY_PASSED[reason] ?? `could not open a sandbox: ${reason}`}.`,
      figures: { backend: name, reason },
      ...(reason in WHY_PASSED ? {} : { action: `Read ${name}’s state: cofferdam doctor.` }),
    }
  })
  if (backend === null) return facts
  const taken: WhyFact = {
    question: 'backend',
    code: 'taken',
    text: `It ran on ${backend}, the first backend that policy allows and that could open a sandbox.`,
    figures: { backend, ...(isolation === null ? {} : { isolation }) },
  }
  return [...facts, taken]
}

/** What to do about an ending. Empty if there is nothing to do. */
const ADVICE: Readonly<Record<Ending, string>> = {
  ok: '',
  error: 'Read its stderr: the program failed by itself.',
  crashed: 'Read its stderr: a signal ended the program.',
  soft_timeout: 'Raise limits.soft_timeout_ms, or let the program do less.',
  hard_timeout: 'Raise limits.hard_timeout_ms. The program did not end when it was asked to.',
  oom: 'Raise limits.memory_mib, or let the program hold less in memory.',
  pids_limit: 'Raise limits.pids, or let the program start fewer processes.',
  disk_limit: 'Raise limits.disk_mib, or let the program write less.',
  output_limit: 'Let the program print less, or write to a file that is an artifact.',
  cancelled: '',
  policy_denied: 'Change the request, or let an operator change the tenant’s policy.',
  cap_exceeded: 'Wait until the window ends, send it with on_cap "defer", or raise the cap.',
  provisioning: 'Operators: cofferdam doctor says which backends work, and why others do not.',
  sandbox_lost: 'Send it again: its sandbox was destroyed from outside.',
  worker_lost: 'Send it again if it may run twice, or set retry. Its worker died in the middle.',
}
