import { FLEET_DEFAULTS, MICRO, type TenantCaps, tenantCapsSchema } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, tenantPath, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { numberFlag, textFlag, textFlags } from '../parse-command-line.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'
import { cancelTenant, cancelledWords } from './cancel.ts'

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
    'A cap of 0 is the kill switch: nothing of the tenant starts any more. `default` restores the default ' +
    'of the fleet.\n' +
    'Changes apply from the next execution that starts, without a restart.',
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
    concurrency: { type: 'string', value: 'N|default', description: 'executions that may run at once' },
    'max-queued': { type: 'string', value: 'N|default', description: 'executions that may wait at once' },
    weight: { type: 'string', value: 'X', description: 'share under contention, relative to 1' },
    rate: { type: 'string', value: 'X|default', description: 'sustained starts per second' },
    burst: { type: 'string', value: 'N', description: 'starts that may exceed the rate at once' },
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
    const path = tenantPath(tenant ?? '')
    const api = openApi(context, line)
    const caps = await api.ask(tenantCapsSchema, 'GET', `${path}/caps`)
    if (verb === 'get') await report(api, path, line, caps, context.terminal)
    else if (verb === 'set') {
      // Sends only the named caps, because somebody else may change other caps at the same time.
      const changes = changesOf(caps, line)
      const stored = await api.ask(tenantCapsSchema, 'PATCH', `${path}/caps`, changes)
      await report(api, path, line, stored, context.terminal)
      if (line.flags['cancel-running'] === true) {
        const total = await cancelTenant(api, tenant ?? '', {
          state: 'running',
          reason: 'stopped by an operator',
        })
        if (!context.terminal.json) context.terminal.note(cancelledWords(total))
      }
    } else
      throw new UsageError(
        `cofferdam caps knows get and set, not ${JSON.stringify(verb)}. See cofferdam caps --help.`,
      )
    return EXIT.ok
  },
}

async function report(
  api: ApiConnection,
  path: string,
  line: CommandLine,
  caps: TenantCaps,
  terminal: Terminal,
) {
  const agent = textFlag(line, 'agent')
  const query = agent === undefined ? '' : `?agent_id=${encodeURIComponent(agent)}`
  const usage = await api.ask(usageSchema, 'GET', `${path}/usage${query}`)
  terminal.value({ caps, usage })
  const show = (
    name: string,
    use: z.infer<typeof meteredSchema> | z.infer<typeof windowSchema>,
    words: (amount: number) => string = String,
  ) => {
    if (use === null) return
    const reserved =
      'reserved' in use && use.reserved !== 0 ? ` (and ${words(use.reserved)} reserved by what runs)` : ''
    const off = use.limit === 0 ? terminal.style('red', '  kill switch is on') : ''
    const used = `${words(use.used)} of ${words(use.limit)} used${reserved}`
    terminal.line(`${name.padEnd(14)} ${used}, resets at ${use.resets_at}${off}`)
  }
  show('tenant, day', usage.tenant_daily)
  show('agent, hour', usage.agent_hourly)
  show('CPU s, day', usage.tenant_daily_cpu)
  show('cost, day', usage.tenant_daily_cost, costWords)
  const { running, limit } = usage.concurrency
  // The default depends on the size of the fleet, which this command does not know.
  const most = limit === FLEET_DEFAULTS.concurrency ? 'as many as the fleet has' : limit
  terminal.line(`${'running'.padEnd(14)} ${running} of ${most}`)
  if (!usage.seeded && !terminal.json)
    terminal.note('The counters were lost. The next execution first counts the audit rows of these windows.')
  const own = Object.entries(caps).filter(([, value]) => value !== null)
  terminal.line(
    terminal.style('dim', own.map(([name, value]) => `${name}=${JSON.stringify(value)}`).join(' ')),
  )
}

/** The caps from the flags. Agent caps are merged into those of `caps`. Throws `UsageError` for none. */
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
      'Nothing to set. Name at least one of --daily, --hourly, --agent-cap, --cpu-seconds, --cost, ' +
        '--concurrency, ' +
        '--max-queued, --weight, --rate, --burst.',
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

/** Converts micro-units to units: `12.5` for 12,500,000. */
export const costWords = (micro: number): string => String(micro / MICRO)

/** A flag in units with up to six decimals, as micro-units. Null: `default`. Undefined: absent. */
function costFlag(line: CommandLine, name: string): number | null | undefined {
  const text = textFlag(line, name)
  if (text === undefined) return undefined
  if (text === 'default') return null
  const match = /^(\d{1,10})(?:\.(\d{1,6}))?$/.exec(text)
  if (match === null)
    throw new UsageError(`--${name} expects an amount such as 12.5, or default, got ${JSON.stringify(text)}.`)
  return Number(match[1]) * MICRO + Number((match[2] ?? '').padEnd(6, '0'))
}
