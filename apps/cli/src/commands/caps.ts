import { FLEET_DEFAULTS, parse, tenantCapsSchema, type TenantCaps } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, type ApiConnection } from '../api-connection.ts'
import { cancelTenant, showCancelled } from '../cancel-tenant.ts'
import { API_FLAGS, type Command, type CommandLine } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { numberFlag, textFlag, textFlags } from '../parse-command-line.ts'
import { costFlag, showCost } from '../show-cost.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'

const windowSchema = z.object({ used: z.number(), limit: z.number(), resets_at: z.string() })
const meteredSchema = windowSchema.extend({ reserved: z.number() }).nullable()
const usageSchema = z.object({
  tenant_daily: windowSchema,
  agent_hourly: windowSchema.nullable(),
  tenant_daily_cpu: meteredSchema,
  tenant_daily_cost: meteredSchema,
  concurrency: z.object({ running: z.number(), limit: z.number() }),
  seeded: z.boolean(),
})

const COUNT = { min: 0, max: 1_000_000_000 }

/** Flags that hold a number or the word `default`. */
const NUMBERS = {
  daily: { field: 'tenant_daily', ...COUNT },
  hourly: { field: 'agent_hourly', ...COUNT },
  'cpu-seconds': { field: 'tenant_daily_cpu_seconds', ...COUNT },
  concurrency: { field: 'concurrency', min: 1, max: 100_000 },
  'max-queued': { field: 'max_queued', min: 0, max: 10_000_000 },
  rate: { field: 'rate_per_second', min: 0.001, max: 100_000, whole: false },
} as const

export const command: Command = {
  usage: 'get TENANT | set TENANT [flags]',
  details:
    'A cap of 0 is the kill switch: nothing of the tenant starts any more. `default` goes back to the fleet’s own.\n' +
    'Changes hold from the next admission on, without a restart.',
  flags: {
    agent: { type: 'string', value: 'ID', description: 'get: also show this agent’s hour' },
    daily: { type: 'string', value: 'N|default', description: 'executions of the tenant a day (UTC)' },
    hourly: { type: 'string', value: 'N|default', description: 'executions of each agent an hour' },
    'agent-cap': {
      type: 'string',
      multiple: true,
      value: 'ID=N',
      description: 'cap of one agent an hour; ID= removes it',
    },
    'cpu-seconds': {
      type: 'string',
      value: 'N|default',
      description: 'CPU seconds of the tenant a day (UTC); default: no cap',
    },
    cost: {
      type: 'string',
      value: 'X|default',
      description: 'cost of the tenant a day (UTC), in units of the prices; default: no cap',
    },
    concurrency: { type: 'string', value: 'N|default', description: 'executions that run at once' },
    'max-queued': { type: 'string', value: 'N|default', description: 'executions that wait at once' },
    weight: { type: 'string', value: 'X', description: 'share under contention, relative to 1' },
    rate: { type: 'string', value: 'X|default', description: 'sustained starts a second' },
    burst: { type: 'string', value: 'N', description: 'starts above the rate' },
    'cancel-running': {
      type: 'boolean',
      description: 'set: also stop what runs now, after the caps are live',
    },
    ...API_FLAGS,
  },
  words: { min: 2, max: 2 },
  examples: [
    'cofferdam caps get demo --agent cli',
    'cofferdam caps set demo --daily 5000 --concurrency 8',
    'cofferdam caps set demo --daily 0                    # kill switch: nothing starts any more',
    'cofferdam caps set demo --daily 0 --cancel-running   # and what runs is stopped',
    'cofferdam caps set demo --cpu-seconds 3600 --cost 2.50',
    'cofferdam caps set demo --daily default',
  ],
  async run(context, line) {
    const [verb, tenant] = line.words
    const path = `/v1/tenants/${encodeURIComponent(tenant ?? '')}`
    const api = openApi(context, line)
    const caps = parse(tenantCapsSchema, await api.call('GET', `${path}/caps`), 'the answer')
    if (verb === 'get') await show(api, path, line, caps, context.terminal)
    else if (verb === 'set') {
      // The named ones alone: somebody else may change others at this moment.
      const changes = changesOf(caps, line)
      const stored = parse(tenantCapsSchema, await api.call('PATCH', `${path}/caps`, changes), 'the answer')
      await show(api, path, line, stored, context.terminal)
      if (line.flags['cancel-running'] === true) {
        const total = await cancelTenant(api, tenant ?? '', {
          state: 'running',
          reason: 'stopped by an operator',
        })
        if (!context.terminal.json) context.terminal.note(showCancelled(total))
      }
    } else throw new UsageError(`cofferdam caps knows get and set, not ${JSON.stringify(verb)}.`)
    return EXIT.ok
  },
}

async function show(
  api: ApiConnection,
  path: string,
  line: CommandLine,
  caps: TenantCaps,
  terminal: Terminal,
) {
  const agent = textFlag(line, 'agent')
  const query = agent === undefined ? '' : `?agent_id=${encodeURIComponent(agent)}`
  const usage = parse(usageSchema, await api.call('GET', `${path}/usage${query}`), 'the answer')
  terminal.value({ caps, usage })
  const window = (name: string, use: z.infer<typeof windowSchema>) =>
    terminal.line(
      `${name.padEnd(14)} ${use.used} of ${use.limit} used, resets at ${use.resets_at}${use.limit === 0 ? terminal.style('red', '  kill switch is on') : ''}`,
    )
  window('tenant, day', usage.tenant_daily)
  if (usage.agent_hourly !== null) window('agent, hour', usage.agent_hourly)
  const metered = (name: string, use: z.infer<typeof meteredSchema>, show: (amount: number) => string) => {
    if (use === null) return
    const held = use.reserved === 0 ? '' : ` (and ${show(use.reserved)} reserved by what runs)`
    terminal.line(
      `${name.padEnd(14)} ${show(use.used)} of ${show(use.limit)} used${held}, resets at ${use.resets_at}${use.limit === 0 ? terminal.style('red', '  kill switch is on') : ''}`,
    )
  }
  metered('CPU s, day', usage.tenant_daily_cpu, String)
  metered('cost, day', usage.tenant_daily_cost, showCost)
  const { running, limit } = usage.concurrency
  // The default follows the fleet, whose size this command does not know.
  const most = limit === FLEET_DEFAULTS.concurrency ? 'as many as the fleet has' : limit
  terminal.line(`${'running'.padEnd(14)} ${running} of ${most}`)
  if (!usage.seeded && !terminal.json)
    terminal.note('Not counted yet: the next execution first counts the audit rows of these windows.')
  const own = Object.entries(caps).filter(([, value]) => value !== null)
  terminal.line(
    terminal.style('dim', own.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(' ')),
  )
}

/**
 * The caps that the flags name; caps of single agents with those that `caps` has. Throws `UsageError` when
 * they name nothing.
 */
export function changesOf(caps: Pick<TenantCaps, 'agents'>, line: CommandLine): Partial<TenantCaps> {
  const changes: Partial<TenantCaps> = {}
  for (const [flag, { field, ...bounds }] of Object.entries(NUMBERS)) {
    const value = textFlag(line, flag) === 'default' ? null : numberFlag(line, flag, bounds)
    if (value !== undefined) changes[field] = value
  }
  const cost = costFlag(line, 'cost')
  if (cost !== undefined) changes.tenant_daily_cost = cost
  const weight = numberFlag(line, 'weight', { min: 0.01, max: 100, whole: false })
  if (weight !== undefined) changes.weight = weight
  const burst = numberFlag(line, 'burst', { min: 1, max: 100_000 })
  if (burst !== undefined) changes.burst = burst
  const agentCaps = textFlags(line, 'agent-cap')
  if (agentCaps.length > 0) changes.agents = withAgentCaps(caps.agents, agentCaps)
  if (Object.keys(changes).length === 0)
    throw new UsageError(
      'Nothing to set. Name at least one of --daily, --hourly, --agent-cap, --cpu-seconds, --cost, --concurrency, --max-queued, --weight, --rate, --burst.',
    )
  return changes
}

function withAgentCaps(agents: TenantCaps['agents'], words: readonly string[]): TenantCaps['agents'] {
  const changed = new Map(Object.entries(agents))
  for (const word of words) {
    const match = /^([^=]+)=(\d*)$/.exec(word)
    if (match?.[1] === undefined || match[2] === undefined)
      throw new UsageError(`--agent-cap expects ID=N or ID=, got ${JSON.stringify(word)}.`)
    if (match[2] === '') changed.delete(match[1])
    else changed.set(match[1], Number(match[2]))
  }
  return Object.fromEntries(changed)
}
