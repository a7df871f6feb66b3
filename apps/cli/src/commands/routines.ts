import { CONCURRENCY_RULES, routineRunSchema, routineSchema, type RoutineView } from '@cofferdam/contract'
import { z } from 'zod'
import { type ApiConnection, openApi } from '../api-connection.ts'
import { buildRequest } from '../build-request.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { durationFlag, findVerb, hasFlag, textFlag, verbUsage, type Verb } from '../parse-command-line.ts'
import { PROGRAM_FLAGS } from '../program-flags.ts'
import { showChanges, table } from '../table.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'

type Run = (api: ApiConnection, word: string, line: CommandLine, context: Context) => Promise<void>

const VERBS: Record<string, Verb<Run>> = {
  list: { usage: '', run: list },
  create: { usage: 'FILE [flags]', run: create },
  show: { usage: 'ID', run: show },
  run: { usage: 'ID', run: runNow },
  enable: { usage: 'ID', run: (api, id, _, { terminal }) => setEnabled(true, api, id, terminal) },
  disable: { usage: 'ID', run: (api, id, _, { terminal }) => setEnabled(false, api, id, terminal) },
  events: { usage: 'ID', run: events },
  delete: { usage: 'ID', run: remove },
}

export const command: Command = {
  usage: `${verbUsage(VERBS)} [-- ARGV…]`,
  details:
    'A routine is a program that runs by a schedule or on demand, in a lane of its own, for up to 24 ' +
    'hours.\n' +
    'Without --cron and --every it runs only on demand (`cofferdam routines run`).',
  flags: {
    ...PROGRAM_FLAGS,
    name: { type: 'string', value: 'TEXT', description: 'create: its name (default: the file)' },
    cron: {
      type: 'string',
      value: 'FIELDS',
      description: 'create: five fields (six to include seconds), or a word such as @daily',
    },
    'time-zone': {
      type: 'string',
      value: 'ZONE',
      description: 'create: time zone of the cron fields (default: UTC)',
    },
    every: { type: 'string', value: 'TIME', description: 'create: an interval instead, e.g. 15m' },
    concurrency: {
      type: 'string',
      value: 'RULE',
      description:
        'create: what happens while a run is in progress: forbid another (default), allow, replace',
    },
    'callback-url': {
      type: 'string',
      value: 'URL',
      description: 'create: each result is posted to this URL',
    },
    disabled: { type: 'boolean', description: 'create: do not start its schedule yet' },
    ...API_FLAGS,
  },
  words: { min: 1, max: 2 },
  takesRest: true,
  examples: [
    'cofferdam routines create report.py --cron "30 2 * * *" --time-zone Europe/Berlin --timeout 2h ' +
      '--heartbeat 10m',
    'cofferdam routines create poll.py --every 15m --concurrency replace',
    'cofferdam routines run rtn_0193…',
    'cofferdam routines disable rtn_0193…',
  ],
  async run(context, line) {
    const { run, words } = findVerb('routines', VERBS, line.words)
    await run(openApi(context, line), words[0] ?? '', line, context)
    return EXIT.ok
  },
}

const pathOf = (id: string): string => `/v1/routines/${encodeURIComponent(id)}`
const pageSchema = z.object({ routines: z.array(routineSchema), next_cursor: z.string().nullable() })
const runsSchema = z.object({ runs: z.array(routineRunSchema) })

function scheduleWords({ schedule }: RoutineView): string {
  if (schedule === null) return 'on demand'
  return 'cron' in schedule ? `${schedule.cron} (${schedule.time_zone})` : `every ${schedule.every_ms} ms`
}

async function list(api: ApiConnection, _: string, line: CommandLine, { terminal }: Context): Promise<void> {
  const routines: RoutineView[] = []
  const tenant = textFlag(line, 'tenant')
  const query = { limit: '200', ...(tenant === undefined ? {} : { tenant_id: tenant }) }
  for await (const page of api.pages(pageSchema, '/v1/routines', query)) routines.push(...page.routines)
  terminal.value(routines)
  const rows = routines.map((routine) => [
    routine.routine_id,
    routine.tenant_id,
    routine.name,
    scheduleWords(routine),
    routine.enabled ? routine.next_run_at : 'disabled',
    routine.last_run?.outcome ?? null,
  ])
  terminal.lines(table(['ROUTINE', 'TENANT', 'NAME', 'SCHEDULE', 'NEXT', 'LAST'], rows))
}

async function create(api: ApiConnection, file: string, line: CommandLine, context: Context): Promise<void> {
  const cron = textFlag(line, 'cron')
  const everyMs = durationFlag(line, 'every')
  const zone = textFlag(line, 'time-zone')
  if (cron !== undefined && everyMs !== undefined)
    throw new UsageError('Use either --cron or --every, not both.')
  if (cron === undefined && zone !== undefined) throw new UsageError('--time-zone needs --cron.')
  const concurrency = textFlag(line, 'concurrency')
  if (concurrency !== undefined && !CONCURRENCY_RULES.some((rule) => rule === concurrency))
    throw new UsageError(
      `--concurrency expects ${CONCURRENCY_RULES.join(', ')}, got ${JSON.stringify(concurrency)}.`,
    )
  const request = await buildRequest(
    { ...line, words: [file], flags: { ...line.flags, lane: 'routine', 'callback-url': undefined } },
    context,
  )
  const routine = await api.ask(routineSchema, 'POST', '/v1/routines', {
    name: textFlag(line, 'name') ?? file,
    request,
    schedule:
      cron !== undefined
        ? { cron, ...(zone === undefined ? {} : { time_zone: zone }) }
        : everyMs !== undefined
          ? { every_ms: everyMs }
          : null,
    enabled: !hasFlag(line, 'disabled'),
    ...(concurrency === undefined ? {} : { concurrency }),
    callback_url: textFlag(line, 'callback-url') ?? null,
  })
  context.terminal.value(routine)
  context.terminal.line(routine.routine_id)
  if (context.terminal.interactive && routine.next_run_at !== null)
    context.terminal.note(`Runs next at ${routine.next_run_at}.`)
}

async function show(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  const routine = await api.ask(routineSchema, 'GET', pathOf(id))
  const { runs } = await api.ask(runsSchema, 'GET', `${pathOf(id)}/runs?limit=10`)
  terminal.value({ ...routine, runs })
  print(routine, terminal)
  const rows = runs.map((run) => [run.scheduled_at ?? 'on demand', run.outcome, run.execution_id, run.reason])
  for (const text of table(['DUE', 'OUTCOME', 'EXECUTION', 'WHY'], rows)) terminal.line(`  ${text}`)
}

function print(routine: RoutineView, terminal: Terminal): void {
  terminal.line(`${terminal.style('bold', routine.name)}  ${routine.routine_id}`)
  const facts: Record<string, string> = {
    tenant: `${routine.tenant_id}, agent ${routine.agent_id}`,
    schedule: scheduleWords(routine),
    next: routine.enabled ? (routine.next_run_at ?? '-') : 'disabled',
    concurrency: routine.concurrency,
    callback: routine.callback_url ?? '-',
  }
  for (const [name, value] of Object.entries(facts)) terminal.line(`  ${name.padEnd(12)} ${value}`)
}

async function runNow(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  const run = await api.ask(routineRunSchema, 'POST', `${pathOf(id)}/run`, {})
  terminal.value(run)
  terminal.line(run.execution_id ?? run.outcome)
  if (run.reason !== null) terminal.note(run.reason)
}

async function setEnabled(
  enabled: boolean,
  api: ApiConnection,
  id: string,
  terminal: Terminal,
): Promise<void> {
  const routine = await api.ask(routineSchema, 'PATCH', pathOf(id), { enabled })
  terminal.value(routine)
  print(routine, terminal)
}

async function events(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  showChanges(await api.call('GET', `${pathOf(id)}/events`), terminal)
}

async function remove(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  await api.call('DELETE', pathOf(id))
  terminal.value({ routine_id: id, deleted: true })
  terminal.line(`${id} is deleted. A run in progress continues.`)
}
