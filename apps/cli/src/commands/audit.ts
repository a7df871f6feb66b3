import { auditRowSchema, EXIT_STATUSES, parse, type AuditRow } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { durationFlag, hasFlag, numberFlag, textFlag } from '../parse-command-line.ts'
import { durationWords } from '../show-result.ts'
import { table } from '../table.ts'

const pageSchema = z.object({ invocations: z.array(auditRowSchema), next_cursor: z.string().nullable() })

export const command: Command = {
  usage: '[flags]',
  details: 'One row per attempt, newest first. Rows cannot be changed; they go when their retention ends.',
  flags: {
    tenant: { type: 'string', value: 'ID', description: 'only this tenant' },
    agent: { type: 'string', value: 'ID', description: 'only this agent' },
    status: {
      type: 'string',
      value: 'NAME',
      description: `only this exit status: ${EXIT_STATUSES.join(', ')}`,
    },
    since: { type: 'string', value: 'TIME', description: 'only the last 30m, 24h …' },
    limit: {
      type: 'string',
      short: 'n',
      value: 'N',
      description: 'rows of one page, 1 to 500 (default: 20)',
    },
    all: { type: 'boolean', description: 'follow every page' },
    ...API_FLAGS,
  },
  words: { min: 0, max: 0 },
  examples: [
    'cofferdam audit --tenant demo --since 1h',
    'cofferdam audit --status timeout --json',
    "cofferdam audit --all --json | jq -c '.[]'",
  ],
  async run(context, line) {
    const { terminal } = context
    const api = openApi(context, line)
    const rows: AuditRow[] = []
    let cursor: string | null = null
    do {
      const answer = await api.call('GET', `/v1/audit/invocations?${query(line, cursor)}`)
      const page = parse(pageSchema, answer, 'the answer')
      rows.push(...page.invocations)
      cursor = page.next_cursor
    } while (cursor !== null && hasFlag(line, 'all') && !context.stop.aborted)
    terminal.value(rows)
    if (rows.length === 0) terminal.line('No audit rows.')
    else
      for (const text of table(
        ['STARTED', 'TENANT', 'AGENT', 'ENDING', 'EXIT', 'TOOK', 'BACKEND', 'EXECUTION'],
        rows.map(columns),
      ))
        terminal.line(text)
    if (cursor !== null && !hasFlag(line, 'all')) terminal.note('There are more; use --limit or --all.')
    return EXIT.ok
  },
}

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

function query(line: CommandLine, cursor: string | null): string {
  const since = durationFlag(line, 'since')
  const parts = {
    tenant_id: textFlag(line, 'tenant'),
    agent_id: textFlag(line, 'agent'),
    exit_status: textFlag(line, 'status'),
    from: since === undefined ? undefined : new Date(Date.now() - since).toISOString(),
    limit: String(numberFlag(line, 'limit', { min: 1, max: 500 }) ?? (hasFlag(line, 'all') ? 500 : 20)),
    cursor: cursor ?? undefined,
  }
  const given = Object.entries(parts).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]]))
  return new URLSearchParams(given).toString()
}
