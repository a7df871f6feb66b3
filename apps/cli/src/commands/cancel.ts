import { z } from 'zod'
import { openApi, tenantPath, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { executionIdOf, textFlag } from '../parse-command-line.ts'
import { UsageError } from '../usage-error.ts'

export const command: Command = {
  usage: 'ID | --tenant TENANT [--agent AGENT] [--state waiting|running|all]',
  details:
    'A queued execution is removed at once; a running one is killed with its whole process tree.\n' +
    'With --tenant (needs an admin key): everything that the tenant, or one of its agents, has at this ' +
    'moment. What is\n' +
    'enqueued later is not affected: see `cofferdam caps set TENANT --daily 0`.',
  flags: {
    tenant: { type: 'string', value: 'TENANT', description: 'cancel the executions of this tenant' },
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
    if (tenant !== undefined) return cancelAll(context, line, tenant)
    if (line.words.length === 0) throw new UsageError('Name an execution, or a tenant with --tenant.')
    const id = executionIdOf(line)
    const path = `/v1/executions/${id}/cancel`
    const answer = await openApi(context, line).ask(z.looseObject({ status: z.string() }), 'POST', path)
    context.terminal.value(answer)
    const outcome = answer.status === 'ended' ? 'had already ended; nothing changed' : answer.status
    context.terminal.line(`${id}: ${outcome}`)
    return EXIT.ok
  },
}

const STATES = ['waiting', 'running', 'all'] as const
type State = (typeof STATES)[number]

async function cancelAll(context: Context, line: CommandLine, tenant: string): Promise<number> {
  if (line.words.length > 0) throw new UsageError('Name an execution or --tenant, not both.')
  const agent = textFlag(line, 'agent')
  const word = textFlag(line, 'state') ?? 'all'
  const state = STATES.find((known) => known === word)
  if (state === undefined)
    throw new UsageError(`--state expects ${STATES.join(', ')}, got ${JSON.stringify(word)}.`)
  const asked = { state, ...(agent === undefined ? {} : { agent_id: agent }) }
  const total = await cancelTenant(openApi(context, line), tenant, asked)
  context.terminal.value(total)
  context.terminal.line(`${tenant}: ${cancelledWords(total)}`)
  return EXIT.ok
}

const answerSchema = z.object({
  cancelled: z.number(),
  cancelling: z.number(),
  next_cursor: z.string().nullable(),
})

interface CancelledTotal {
  cancelled: number
  cancelling: number
}

/** Cancels, page by page, all executions of the tenant that are in asked.state when the call begins. */
export async function cancelTenant(
  api: ApiConnection,
  tenant: string,
  asked: { state: State; agent_id?: string; reason?: string },
): Promise<CancelledTotal> {
  const total = { cancelled: 0, cancelling: 0 }
  for (let cursor: string | undefined | null; cursor !== null;) {
    const body = { ...asked, cursor }
    const page: z.infer<typeof answerSchema> = await api.ask(
      answerSchema,
      'POST',
      `${tenantPath(tenant)}/cancel`,
      body,
    )
    total.cancelled += page.cancelled
    total.cancelling += page.cancelling
    cursor = page.next_cursor
  }
  return total
}

export const cancelledWords = ({ cancelled, cancelling }: CancelledTotal): string =>
  `${cancelled} ended before they ran, ${cancelling} told to stop`
