import { z } from 'zod'
import { openApi, tenantPath } from '../api-connection.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { textFlag } from '../parse-command-line.ts'
import { table } from '../table.ts'
import { costWords } from './caps.ts'

const sumsSchema = z.looseObject({
  calls: z.number(),
  failed: z.number(),
  cpu_ms: z.number(),
  gb_seconds: z.number(),
  run_ms: z.number(),
  cost: z.number(),
})
const reportSchema = z.looseObject({
  from: z.string(),
  to: z.string(),
  group_by: z.string(),
  total: sumsSchema,
  groups: z.array(sumsSchema.extend({ key: z.string().nullable() })),
  truncated: z.boolean(),
})

export const command: Command = {
  usage: 'TENANT [--from TIME] [--to TIME] [--by day|agent|backend]',
  details:
    'Sums of charged attempts, from the audit rows: the last 30 days by default, 186 days at most.\n' +
    'Each attempt has the price of the moment when it ended (prices: in cofferdam.config.yaml).',
  flags: {
    from: { type: 'string', value: 'TIME', description: 'charged at or after this, ISO 8601' },
    to: { type: 'string', value: 'TIME', description: 'charged before this, ISO 8601 (default: now)' },
    by: { type: 'string', value: 'GROUP', description: 'day (default), agent or backend' },
    ...API_FLAGS,
  },
  words: { min: 1, max: 1 },
  examples: [
    'cofferdam usage acme',
    'cofferdam usage acme --by agent --from 2026-11-01T00:00:00Z --to 2026-12-01T00:00:00Z',
  ],
  async run(context, line) {
    const [tenant = ''] = line.words
    const asked = new URLSearchParams({ group_by: textFlag(line, 'by') ?? 'day' })
    for (const name of ['from', 'to']) {
      const value = textFlag(line, name)
      if (value !== undefined) asked.set(name, value)
    }
    const path = `${tenantPath(tenant)}/usage?${asked.toString()}`
    const report = await openApi(context, line).ask(reportSchema, 'GET', path)
    const { terminal } = context
    terminal.value(report)
    const cells = (group: z.infer<typeof sumsSchema>) => [
      group.calls,
      group.failed,
      (group.cpu_ms / 1000).toFixed(3),
      group.gb_seconds.toFixed(3),
      costWords(group.cost),
    ]
    const rows = report.groups.map((group) => [group.key ?? '-', ...cells(group)])
    const heads = [report.group_by.toUpperCase(), 'CALLS', 'FAILED', 'CPU S', 'GB S', 'COST']
    terminal.lines(table(heads, [...rows, ['total', ...cells(report.total)]]))
    if (report.truncated && !terminal.json)
      terminal.note('Only the largest groups are shown; the total has all of them.')
    return EXIT.ok
  },
}
