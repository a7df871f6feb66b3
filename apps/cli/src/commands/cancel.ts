import { openApi } from '../api-connection.ts'
import { cancelTenant, showCancelled } from '../cancel-tenant.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { executionIdOf } from '../execution-id.ts'
import { EXIT } from '../exit-status.ts'
import { textFlag } from '../parse-command-line.ts'
import { UsageError } from '../usage-error.ts'

export const command: Command = {
  usage: 'ID | --tenant TENANT [--agent AGENT] [--state waiting|running|all]',
  details:
    'A queued execution is removed at once; a running one is killed with its whole process tree.\n' +
    'With --tenant (an admin key): everything that it, or one of its agents, has at this moment. What is enqueued later is\n' +
    'not touched: see `cofferdam caps set TENANT --daily 0`.',
  flags: {
    tenant: { type: 'string', value: 'TENANT', description: 'cancel what this tenant has' },
    agent: { type: 'string', value: 'AGENT', description: 'with --tenant: of this agent only' },
    state: {
      type: 'string',
      value: 'STATE',
      description: 'with --tenant: waiting, running or all (default: all)',
    },
    ...API_FLAGS,
  },
  words: { min: 0, max: 1 },
  examples: ['cofferdam cancel exe_0193…', 'cofferdam cancel --tenant acme --agent crawler --state waiting'],
  async run(context, line) {
    const tenant = textFlag(line, 'tenant')
    if (tenant !== undefined) return cancelOfTenant(context, line, tenant)
    if (line.words.length === 0) throw new UsageError('Name an execution, or --tenant.')
    const id = executionIdOf(line)
    const answer = await openApi(context, line).call('POST', `/v1/executions/${id}/cancel`)
    context.terminal.value(answer)
    context.terminal.line(`${id}: ${outcomeOf(answer)}`)
    return EXIT.ok
  },
}

const STATES = ['waiting', 'running', 'all'] as const

async function cancelOfTenant(context: Context, line: CommandLine, tenant: string): Promise<number> {
  if (line.words.length > 0) throw new UsageError('Name an execution or --tenant, not both.')
  const agent = textFlag(line, 'agent')
  const word = textFlag(line, 'state') ?? 'all'
  const state = STATES.find((known) => known === word)
  if (state === undefined)
    throw new UsageError(`--state expects ${STATES.join(', ')}, got ${JSON.stringify(word)}.`)
  const asked = { state, ...(agent === undefined ? {} : { agent_id: agent }) }
  const total = await cancelTenant(openApi(context, line), tenant, asked)
  context.terminal.value(total)
  context.terminal.line(`${tenant}: ${showCancelled(total)}`)
  return EXIT.ok
}

function outcomeOf(answer: unknown): string {
  const found =
    typeof answer === 'object' && answer !== null && 'status' in answer ? answer.status : 'cancelling'
  return found === 'ended' ? 'had ended before; nothing changed' : String(found)
}
