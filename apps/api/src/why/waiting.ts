/** The sentences for what an execution waits for. */
import type { WhyFact } from '@cofferdam/contract'
import type { WaitFact } from '@cofferdam/queue'

type Told = Pick<WhyFact, 'text'> & Partial<Pick<WhyFact, 'action'>>

/** Names of the figures that only operators may see. No text of a fact contains such a figure. */
const FOR_OPERATORS = /^(fleet_|worker_id$)/

/** A fact of the scheduler as the API answers it. */
export function waitingFact(fact: WaitFact, isOperator: boolean): WhyFact {
  const { code, since, ...rest } = fact
  const { until, ...figures } = { until: undefined, ...rest }
  // Leaves out figures that are -1, which means unknown.
  const shown = Object.entries(figures).filter(
    ([name, value]) => value !== -1 && (isOperator || !FOR_OPERATORS.test(name)),
  )
  return {
    question: 'waits',
    code,
    ...tell(fact),
    figures: Object.fromEntries(shown),
    ...(since === undefined ? {} : { since: timeOf(since) }),
    ...(until === undefined ? {} : { until: timeOf(until) }),
  }
}

function tell(fact: WaitFact): Told {
  switch (fact.code) {
    case 'delayed':
      return fact.returned
        ? {
            text: `A worker put it back until ${timeOf(fact.until)}. The last notice of its events says why.`,
            action: 'Read its events: cofferdam logs ID.',
          }
        : { text: `It was asked to start at ${timeOf(fact.until)}, and not before.` }
    case 'session_turn':
      return {
        text:
          `Executions of one session run one at a time, and ${count(fact.ahead)} of its session come first: ` +
          `${fact.execution_id} runs or is next.`,
        action: 'Wait, cancel the one before it, or use another session.',
      }
    case 'session_worker':
      return {
        text: `The worker that has its session’s sandbox is busy, and ${fact.ahead} wait there before it.`,
        action: 'Wait. If that worker stops, another one takes it, in a new sandbox.',
      }
    case 'tenant_parked':
      return {
        text:
          `All of its tenant waits until ${timeOf(fact.until)}: a cap is used up, or policy or caps cannot ` +
          'be read. The last notice of its events says which.',
        action:
          'Wait, or raise the cap. With on_cap "reject", an execution ends instead of waiting for a cap.',
      }
    case 'no_worker':
      return {
        text:
          `No live worker can run it${needed(fact.need)}.` +
          (fact.until === undefined ? '' : ` It is refused at ${timeOf(fact.until)}, unless one comes.`),
        action: 'Start such a worker (cofferdam doctor says what a machine can run), or ask for less.',
      }
    case 'tenant_concurrency':
      return {
        text: `Its tenant has ${fact.running} under way, and its concurrency limit is ${fact.limit}.`,
        action: 'Wait, or raise the tenant’s concurrency.',
      }
    case 'agent_turn':
      return {
        text:
          `Of its tenant, ${count(fact.ahead)} of the same agent come before it, and ` +
          `${fact.other_agents} of other agents take turns with them.`,
        action: 'Wait, give it a higher priority, or use another agent_id.',
      }
    case 'turn':
      return {
        text: `${place(fact)}. Tenants share the slots by weight, and this tenant’s is ${fact.weight}.`,
        action: 'Wait, or start more workers.',
      }
    case 'worker_slot':
      return {
        text: `It takes the next free slot that can run it: ${place(fact)}.`,
        action: 'Wait, or start more workers. A worker that is short of memory takes nothing.',
      }
    case 'starting':
      return {
        text: 'A worker has it, and asks its policy and caps or opens its sandbox.',
        action: 'If it lasts, read the worker’s log: a backend may be slow or full.',
      }
  }
}

const count = (many: number): string => (many === 1 ? '1 execution' : `${many} executions`)

const place = ({ ahead }: { ahead: number }): string => `${count(ahead)} should start before it`

const needed = (need: string): string => (need === '' ? '' : `: it needs ${need.replaceAll(',', ', ')}`)

const timeOf = (ms: number): string => new Date(ms).toISOString()
