import {
  CONCURRENCY_RULES,
  parse,
  routineRunSchema,
  routineSchema,
  type RoutineView,
} from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, type ApiConnection } from '../api-connection.ts'
import { buildRequest } from '../build-request.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb } from '../find-verb.ts'
import { showChanges } from '../show-changes.ts'
import { durationFlag, hasFlag, textFlag } from '../parse-command-line.ts'
import { PROGRAM_FLAGS } from '../program-flags.ts'
import { table } from '../table.ts'
import type { Terminal } from '../terminal.ts'
import { UsageError } from '../usage-error.ts'

type Verb = (api: ApiConnection, word: string, line: CommandLine, context: Context) => Promise<void>

const VERBS: Record<string, { words: string[]; run: Verb }> = {
  list: { words: [], run: list },
  create: { words: ['FILE'], run: create },
  show: { words: ['ID'], run: show },
  run: { words: ['ID'], run: runNow },
  enable: { words: ['ID'], run: (api, id, _, { terminal }) => switchTo(true, api, id, terminal) },
  disable: { words: ['ID'], run: (api, id, _, { terminal }) => switchTo(false, api, id, terminal) },
  events: { words: ['ID'], run: events },
  delete: { words: ['ID'], run: remove },
}

export const command: Command = {
  usage:
    'list | create FILE [flags] [-- ARGV…] | show ID | run ID | enable ID | disable ID | events ID | delete ID',
  details:
    'A routine is a program that runs by a schedule or when somebody says so, in a lane of its own, for up to 24 hours.\n' +
    'Without --cron and --every it is run by hand.',
  flags: {
    ...PROGRAM_FLAGS,
    name: { type: 'string', value: 'TEXT', description: 'create: what it is called (default: the file)' },
    cron: {
      type: 'string',
      value: 'FIELDS',
      description: 'create: five fields (six with seconds in front), or @daily and its like',
    },
    'time-zone': { type: 'string', value: 'ZONE', description: 'create: of the cron fields (default: UTC)' },
    every: { type: 'string', value: 'TIME', description: 'create: an interval instead, e.g. 15m' },
    concurrency: {
      type: 'string',
      value: 'RULE',
      description: 'create: while a run lives: forbid another (default), allow, replace',
    },
    'callback-url': { type: 'string', value: 'URL', description: 'create: where each result is posted to' },
    disabled: { type: 'boolean', description: 'create: do not run it by its schedule yet' },
    ...API_FLAGS,
  },
  words: { min: 1, max: 2 },
  takesRest: true,
  examples: [
    'cofferdam routines create report.py --cron "30 2 * * *" --time-zone Europe/Berlin --timeout 2h --heartbeat 10m',
    'cofferdam routines create poll.py --every 15m --concurrency replace',
    'cofferdam routines run rtn_0193…',
    'cofferdam routines disable rtn_0193…',
  ],
  async run(context, line) {
    const [name = '', word] = line.words
    const verb = findVerb('routines', VERBS, name)
    if (line.words.length !== verb.words.length + 1)
      throw new UsageError(`Usage: cofferdam routines ${[name, ...verb.words].join(' ')}`)
    await verb.run(openApi(context, line), word ?? '', line, context)
    return EXIT.ok
  },
}

const pathOf = (id: string): string => `/v1/routines/${encodeURIComponent(id)}`
const pageSchema = z.object({ routines: z.array(routineSchema), next_cursor: z.string().nullable() })
const runsSchema = z.object({ runs: z.array(routineRunSchema) })

function scheduleWords({ schedule }: RoutineView): string {
  if (schedule === null) return 'by hand'
  return 'cron' in schedule ? `${schedule.cron} (${schedule.time_zone})` : `every ${schedule.every_ms} ms`
}

async function list(api: ApiConnection, _: string, line: CommandLine, { terminal }: Context): Promise<void> {
  const routines: RoutineView[] = []
  const tenant = textFlag(line, 'tenant')
  for (let cursor: string | null = ''; ;) {
    const query = new URLSearchParams({
      limit: '200',
      ...(tenant === undefined ? {} : { tenant_id: tenant }),
      ...(cursor === '' ? {} : { cursor }),
    })
    const answer = await api.call('GET', `/v1/routines?${query.toString()}`)
    const page: z.infer<typeof pageSchema> = parse(pageSchema, answer, 'the answer')
    routines.push(...page.routines)
    cursor = page.next_cursor
    if (cursor === null) break
  }
  terminal.value(routines)
  const rows = routines.map((routine) => [
    routine.routine_id,
    routine.tenant_id,
    routine.name,
    scheduleWords(routine),
    routine.enabled ? routine.next_run_at : 'disabled',
    routine.last_run?.outcome ?? null,
  ])
  for (const text of table(['ROUTINE', 'TENANT', 'NAME', 'SCHEDULE', 'NEXT', 'LAST'], rows))
    terminal.line(text)
}

async function create(api: ApiConnection, file: string, line: CommandLine, context: Context): Promise<void> {
  const cron = textFlag(line, 'cron')
  const everyMs = durationFlag(line, 'every')
  const zone = textFlag(line, 'time-zone')
  if (cron !== undefined && everyMs !== undefined)
    throw new UsageError('--cron and --every exclude each other.')
  if (cron === undefined && zone !== undefined) throw new UsageError('--time-zone needs --cron.')
  const concurrency = textFlag(line, 'concurrency')
  if (concurrency !== undefined && !CONCURRENCY_RULES.some((rule) => rule === concurrency))
    throw new UsageError(`--concurrency expects ${CONCURRENCY_RULES.join(', ')}.`)
  const request = await buildRequest(
    { ...line, words: [file], flags: { ...line.flags, lane: 'routine', 'callback-url': undefined } },
    context,
  )
  const made = await api.call('POST', '/v1/routines', {
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
  const routine = parse(routineSchema, made, 'the answer')
  context.terminal.value(routine)
  context.terminal.line(routine.routine_id)
  if (context.terminal.interactive && routine.next_run_at !== null)
    context.terminal.note(`Runs next at ${routine.next_run_at}.`)
}

async function show(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  const routine = parse(routineSchema, await api.call('GET', pathOf(id)), 'the answer')
  const { runs } = parse(runsSchema, await api.call('GET', `${pathOf(id)}/runs?limit=10`), 'the answer')
  terminal.value({ ...routine, runs })
  print(routine, terminal)
  const rows = runs.map((run) => [run.scheduled_at ?? 'by hand', run.outcome, run.execution_id, run.reason])
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
  const run = parse(routineRunSchema, await api.call('POST', `${pathOf(id)}/run`, {}), 'the answer')
  terminal.value(run)
  terminal.line(run.execution_id ?? run.outcome)
  if (run.reason !== null) terminal.note(run.reason)
}

async function switchTo(enabled: boolean, api: ApiConnection, id: string, terminal: Terminal): Promise<void> {
  const routine = parse(routineSchema, await api.call('PATCH', pathOf(id), { enabled }), 'the answer')
  terminal.value(routine)
  print(routine, terminal)
}

async function events(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  showChanges(await api.call('GET', `${pathOf(id)}/events`), terminal)
}

async function remove(api: ApiConnection, id: string, _: CommandLine, { terminal }: Context): Promise<void> {
  await api.call('DELETE', pathOf(id))
  terminal.value({ routine_id: id, deleted: true })
  terminal.line(`${id} is deleted; what runs of it goes on.`)
}
