import { auditRowSchema, type AuditRow } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, type ApiConnection } from '../api-connection.ts'
import { exportAudit } from '../audit-export.ts'
import { AUDIT_FLAGS, auditParameters, auditPath } from '../audit-flags.ts'
import { followAudit } from '../audit-follow.ts'
import {
  API_FLAGS,
  CommandFailure,
  COMMON_FLAGS,
  type Command,
  type CommandLine,
  type Context,
} from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { executionIdOf, hasFlag, numberFlag, textFlag } from '../parse-command-line.ts'
import { durationWords } from '../show-result.ts'
import { alignRow, table } from '../table.ts'
import { UsageError } from '../usage-error.ts'

const pageSchema = z.object({ invocations: z.array(auditRowSchema), next_cursor: z.string().nullable() })
const DEFAULT_ROWS = 20
const MAX_ROWS = 500
/** Flags that say nothing about which rows are shown. */
const KEPT_FLAGS = Object.keys({ ...API_FLAGS, ...COMMON_FLAGS })

export const command: Command = {
  usage: '[EXECUTION] [flags]',
  details:
    'One row per attempt, newest first. Rows never change and are deleted when their retention ends.\n' +
    'EXECUTION shows everything of the rows of one execution.\n' +
    '--follow shows every row in the order of recording; with --json one row per line.\n' +
    '--export writes all rows as NDJSON, newest first.',
  flags: {
    ...AUDIT_FLAGS,
    limit: {
      type: 'string',
      short: 'n',
      value: 'N',
      description: `rows to show, 1 to ${MAX_ROWS} (default: ${DEFAULT_ROWS})`,
    },
    all: { type: 'boolean', description: 'every row' },
    follow: {
      type: 'boolean',
      short: 'f',
      description: 'also show rows that are recorded from now on, until Ctrl-C',
    },
    'cursor-file': {
      type: 'string',
      value: 'FILE',
      description: '--follow: save the position there, and continue from it at the next start',
    },
    export: { type: 'string', value: 'FILE', description: 'write every row there as NDJSON (- for stdout)' },
    resume: { type: 'boolean', description: '--export: continue an incomplete file' },
    ...API_FLAGS,
  },
  words: { min: 0, max: 1 },
  examples: [
    'cofferdam audit --tenant demo --since 1h',
    'cofferdam audit exe_0193…',
    'cofferdam audit --status timeout --json',
    'cofferdam audit --follow --ending worker_lost',
    'cofferdam audit --tenant demo --since 2026-11-01 --until 2026-12-01 --export november.ndjson',
    "cofferdam audit --all --json | jq -c '.[]'",
  ],
  async run(context, line) {
    const api = openApi(context, line)
    checkTogether(line)
    if (line.words.length > 0) return await showExecution(context, line, api)
    const file = textFlag(line, 'export')
    if (file !== undefined) return await write(context, line, api, file)
    if (hasFlag(line, 'follow')) return await follow(context, line, api)
    return await list(context, line, api)
  },
}

function checkTogether(line: CommandLine): void {
  if (line.words.length > 0 && Object.keys(line.flags).some((name) => !KEPT_FLAGS.includes(name)))
    throw new UsageError('One execution cannot be filtered, followed or exported: give EXECUTION alone.')
  const modes = ['all', 'follow', 'export'].filter((name) => hasFlag(line, name) || textFlag(line, name))
  if (modes.length > 1) throw new UsageError(`Use only one of --${modes.join(' and --')}.`)
  if (hasFlag(line, 'resume') && textFlag(line, 'export') === undefined)
    throw new UsageError('--resume needs --export FILE.')
  if (textFlag(line, 'cursor-file') !== undefined && !hasFlag(line, 'follow'))
    throw new UsageError('--cursor-file needs --follow.')
  if (hasFlag(line, 'follow') && textFlag(line, 'until') !== undefined)
    throw new UsageError('--until cannot be used with --follow.')
}

async function showExecution(
  { terminal, stop }: Context,
  line: CommandLine,
  api: ApiConnection,
): Promise<number> {
  const execution_id = executionIdOf(line)
  const { rows } = await newest(api, { execution_id }, Infinity, stop)
  if (rows.length === 0)
    throw new CommandFailure(
      `No audit row of ${execution_id}: it has not ended, its rows have expired, or it never was.`,
    )
  terminal.value(rows)
  for (const row of rows.toReversed()) {
    terminal.line(`${row.execution_id}, attempt ${row.attempt}`)
    const facts = Object.entries(row).filter(([, value]) => value !== null && !isEmpty(value))
    const width = Math.max(...facts.map(([name]) => name.length))
    for (const [name, value] of facts)
      terminal.line(`  ${name.padEnd(width)}  ${typeof value === 'string' ? value : JSON.stringify(value)}`)
  }
  return EXIT.ok
}

const isEmpty = (value: unknown): boolean => Array.isArray(value) && value.length === 0

async function list({ terminal, stop }: Context, line: CommandLine, api: ApiConnection): Promise<number> {
  const limit = hasFlag(line, 'all') ? Infinity : limitOf(line)
  const { rows, more } = await newest(api, auditParameters(line, true), limit, stop)
  terminal.value(rows)
  if (rows.length === 0) terminal.line('No audit rows.')
  else terminal.lines(table(HEADINGS, rows.map(columns)))
  if (more) terminal.note('There are more rows. Use --limit or --all to see them.')
  return EXIT.ok
}

/** Up to `limit` rows, newest first. A filter that rarely matches takes several pages, some of them empty. */
async function newest(
  api: ApiConnection,
  parameters: Record<string, string>,
  limit: number,
  stop: AbortSignal,
): Promise<{ rows: AuditRow[]; more: boolean }> {
  const rows: AuditRow[] = []
  let cursor: string | null = null
  do {
    const page: z.infer<typeof pageSchema> = await api.ask(
      pageSchema,
      'GET',
      auditPath('invocations', {
        ...parameters,
        limit: String(Math.min(MAX_ROWS, limit - rows.length)),
        ...(cursor === null ? {} : { cursor }),
      }),
    )
    rows.push(...page.invocations)
    cursor = page.next_cursor
  } while (cursor !== null && rows.length < limit && !stop.aborted)
  return { rows, more: cursor !== null }
}

async function follow(context: Context, line: CommandLine, api: ApiConnection): Promise<number> {
  const { terminal, stop } = context
  const cursorFile = textFlag(line, 'cursor-file')
  const show = (row: AuditRow): void => {
    terminal.value(row)
    const cells = columns(row).map((cell) => String(cell ?? '-'))
    terminal.line(alignRow(cells, WIDTHS))
  }
  terminal.line(alignRow(HEADINGS, WIDTHS))
  await followAudit({
    api,
    terminal,
    stop,
    show,
    parameters: auditParameters(line, false),
    ...(cursorFile === undefined ? {} : { cursorFile }),
    begin: async () => {
      const { rows } = await newest(api, auditParameters(line, true), limitOf(line), stop)
      for (const row of rows.toReversed()) show(row)
      return rows
    },
  })
  return EXIT.ok
}

async function write(
  { terminal }: Context,
  line: CommandLine,
  api: ApiConnection,
  file: string,
): Promise<number> {
  const rows = await exportAudit({
    api,
    file,
    parameters: auditParameters(line, true),
    resume: hasFlag(line, 'resume'),
  })
  terminal.note(`${rows} ${rows === 1 ? 'row' : 'rows'} written${file === '-' ? '' : ` to ${file}`}.`)
  return EXIT.ok
}

const limitOf = (line: CommandLine): number =>
  numberFlag(line, 'limit', { min: 1, max: MAX_ROWS }) ?? DEFAULT_ROWS

const HEADINGS = ['STARTED', 'TENANT', 'AGENT', 'ENDING', 'EXIT', 'TOOK', 'BACKEND', 'EXECUTION']
/** Widths of rows that are printed one by one. */
const WIDTHS = [19, 12, 12, 12, 4, 8, 8, 36]

const columns = (row: AuditRow) => [
  row.started_at.slice(0, 19).replace('T', ' '),
  row.tenant_id,
  row.agent_id,
  row.ending,
  row.exit_code,
  durationWords(row.duration_ms),
  row.backend,
  row.attempt === 1 ? row.execution_id : `${row.execution_id} (attempt ${row.attempt})`,
]
