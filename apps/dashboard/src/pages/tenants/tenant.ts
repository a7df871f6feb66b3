/** What the pages say about a tenant, made of its policy and caps. */
import type { Operations, ReadableTenant } from '@cofferdam/client'
import type { Tone } from '../../words/endings.ts'
import { count } from '../../words/figures.ts'

type QueueTenants = Operations['listQueueTenants']['result']

/** The API’s path of a tenant, or of a part of it. */
export const tenantPath = (id: string, part = ''): string =>
  `/v1/tenants/${encodeURIComponent(id)}${part === '' ? '' : `/${part}`}`

/** Caps that stop the whole tenant when they are 0. The API calls such a tenant stopped, too. */
const STOPPING = [
  ['tenant_daily', 'daily cap'],
  ['agent_hourly', 'hourly cap of its agents'],
  ['tenant_daily_cpu_seconds', 'cap of CPU seconds'],
  ['tenant_daily_cost', 'cap of cost'],
] as const

/** Whether anything of the tenant can start, and if not, why. */
export function standingOf({ policy, caps }: ReadableTenant): { tone: Tone; words: string; why: string } {
  const zero = STOPPING.find(([name]) => caps[name] === 0)
  if (zero !== undefined)
    return { tone: 'bad', words: 'Stopped', why: `Nothing starts: its ${zero[1]} is 0.` }
  if (!policy.sandbox_enabled)
    return { tone: 'warn', words: 'Sandbox off', why: 'Every execution is refused: its policy says so.' }
  return { tone: 'ok', words: 'Active', why: '' }
}

/** What a tenant has in the queue. `waiting` has those that are due and the delayed ones. */
export interface Load {
  due: number
  waiting: number
  running: number
}

/** Whether the queue’s answer has a row of the tenant. A tenant with only delayed executions has no row. */
export const isListed = ({ tenants }: QueueTenants, id: string): boolean =>
  tenants.some(({ tenant_id: name }) => name === id)

/** The load of a tenant. Null if the answer lacks some tenants, and this one may be among those. */
export function loadOf({ tenants, total, complete }: QueueTenants, id: string): Load | null {
  const row = tenants.find(({ tenant_id: name }) => name === id)
  if (row !== undefined) return { due: row.waiting, waiting: row.waiting + row.delayed, running: row.running }
  return complete && total <= tenants.length ? { due: 0, waiting: 0, running: 0 } : null
}

/** The load in words. Empty if it is not known. */
export function loadWords(load: Load | null): string {
  if (load === null) return ''
  const { waiting, running } = load
  const waits = `${count(waiting)} ${waiting === 1 ? 'waits' : 'wait'}`
  return `${waits}, ${count(running)} ${running === 1 ? 'runs' : 'run'}`
}
