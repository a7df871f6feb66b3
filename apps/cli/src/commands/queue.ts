import { parse, queueTenantsSchema, QUEUE_TENANT_SORTS, type QueueTenant } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { numberFlag, textFlag } from '../parse-command-line.ts'
import { durationWords } from '../show-result.ts'
import { table } from '../table.ts'
import { UsageError } from '../usage-error.ts'

const laneSchema = z.looseObject({
  queued: z.number(),
  delayed: z.number(),
  running: z.number(),
  oldest_age_ms: z.number().nullable(),
  window: z.number(),
})
const queueSchema = z.looseObject({
  lanes: z.looseObject({ interactive: laneSchema, routine: laneSchema }),
  workers: z.array(
    z.looseObject({
      worker_id: z.string(),
      slots: z.number(),
      running: z.number(),
      last_seen_ms: z.number(),
    }),
  ),
  outbox: z.number(),
})
const DEFAULT_ROWS = 20
const MAX_ROWS = 500

export const command: Command = {
  usage: '[tenants] [flags]',
  details:
    'Without a word: what waits and runs in each lane, and the workers.\n' +
    'tenants: what each tenant gets of the fleet, what it is due by its weight, and who is next.',
  flags: {
    sort: {
      type: 'string',
      value: 'ORDER',
      description: `tenants: ${QUEUE_TENANT_SORTS.join(', ')} (default: next)`,
    },
    limit: {
      type: 'string',
      short: 'n',
      value: 'N',
      description: `tenants: rows to show, 1 to ${MAX_ROWS} (default: ${DEFAULT_ROWS})`,
    },
    ...API_FLAGS,
  },
  words: { min: 0, max: 1 },
  examples: ['cofferdam queue', 'cofferdam queue tenants --sort waiting'],
  async run(context, line) {
    const [word] = line.words
    if (word !== undefined && word !== 'tenants')
      throw new UsageError(`cofferdam queue has no ${JSON.stringify(word)}. Did you mean tenants?`)
    await (word === undefined ? showLanes(context, line) : showTenants(context, line))
    return EXIT.ok
  },
}

async function showLanes(context: Context, line: CommandLine): Promise<void> {
  const { terminal } = context
  const { lanes, workers, outbox, ...rest } = await openApi(context, line).ask(
    queueSchema,
    'GET',
    '/v1/queue',
  )
  terminal.value({ lanes, workers, outbox, ...rest })
  const rows = (['interactive', 'routine'] as const).map((name) => {
    const { queued, delayed, running, oldest_age_ms: oldest, window } = lanes[name]
    return [name, queued, delayed, running, window, ageWords(oldest)]
  })
  terminal.lines(table(['LANE', 'WAITING', 'DELAYED', 'RUNNING', 'WINDOW', 'OLDEST'], rows))
  terminal.line()
  const seen = workers.map((worker) => [
    worker.worker_id,
    worker.running,
    worker.slots,
    durationWords(worker.last_seen_ms),
  ])
  terminal.lines(table(['WORKER', 'RUNNING', 'SLOTS', 'LAST SEEN'], seen))
  if (outbox > 0) terminal.line(`${outbox} attempt records wait for Postgres.`)
}

async function showTenants(context: Context, line: CommandLine): Promise<void> {
  const { terminal } = context
  const sort = parse(z.enum(QUEUE_TENANT_SORTS), textFlag(line, 'sort') ?? 'next', '--sort')
  const limit = numberFlag(line, 'limit', { min: 1, max: MAX_ROWS }) ?? DEFAULT_ROWS
  const path = `/v1/queue/tenants?sort=${sort}&limit=${limit}`
  const { tenants, total, complete, at } = await openApi(context, line).ask(queueTenantsSchema, 'GET', path)
  terminal.value({ tenants, total, complete, at })
  const heads = [
    'NEXT',
    'TENANT',
    'WAITING',
    'RUNNING',
    'LIMIT',
    'GOT',
    'DUE',
    'WEIGHT',
    'LAG S',
    'OLDEST',
    '',
  ]
  terminal.lines(table(heads, tenants.map(cellsOf)))
  if (terminal.json) return
  if (total > tenants.length) terminal.note(`${total - tenants.length} more tenants: raise --limit.`)
  if (!complete)
    terminal.note('There are more tenants than the API examines. Shares and places leave them out.')
}

function cellsOf(row: QueueTenant): (string | number | null)[] {
  const notes = [
    ...(row.kill_switch === true ? ['stopped by a cap of 0'] : []),
    ...(row.parked_until === null ? [] : [`parked until ${row.parked_until}`]),
    ...(row.delayed === 0 ? [] : [`${row.delayed} delayed`]),
  ]
  return [
    row.place,
    row.tenant_id,
    row.waiting,
    row.running,
    row.concurrency,
    percent(row.share_1m),
    percent(row.due_share),
    row.weight,
    row.virtual_lag === null ? null : row.virtual_lag.toFixed(2),
    ageWords(row.oldest_age_ms),
    notes.join(', '),
  ]
}

const percent = (share: number | null): string | null =>
  share === null ? null : `${(share * 100).toFixed(1)}%`

const ageWords = (ms: number | null): string | null => (ms === null ? null : durationWords(ms))
