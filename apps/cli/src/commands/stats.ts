import {
  parse,
  SERIES_STEPS,
  statsSchema,
  type SeriesFigureLists,
  type SeriesStep,
} from '@cofferdam/contract'
import { z } from 'zod'
import { openApi } from '../api-connection.ts'
import { momentFlag } from '../audit-flags.ts'
import { API_FLAGS, type Command } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { textFlag } from '../parse-command-line.ts'
import { durationWords } from '../show-result.ts'
import { table } from '../table.ts'
import { costWords } from './caps.ts'

const STEPS = Object.keys(SERIES_STEPS) as [SeriesStep, ...SeriesStep[]]
const GROUPS = ['ending', 'backend', 'tenant'] as const

export const command: Command = {
  usage: '[--since TIME] [--until TIME] [--step STEP] [--by ending|backend|tenant] [--tenant TENANT]',
  details:
    'How many attempts ended in each step, how long they waited and ran, and what they cost: the last\n' +
    'hour by default, 24 hours at most. Steps without attempts are left out; --json has them.',
  flags: {
    since: { type: 'string', value: 'TIME', description: 'ended within the last 30m, 6h … or since a time' },
    until: { type: 'string', value: 'TIME', description: 'ended before this (default: now)' },
    step: { type: 'string', value: 'STEP', description: `${STEPS.join(', ')} (default: 1m)` },
    by: { type: 'string', value: 'GROUP', description: `also counts by ${GROUPS.join(', ')}` },
    tenant: {
      type: 'string',
      value: 'TENANT',
      description: 'only this tenant (default: that of the key, or all)',
    },
    ...API_FLAGS,
  },
  words: { min: 0, max: 0 },
  examples: [
    'cofferdam stats',
    'cofferdam stats --by ending --since 6h --step 15m',
    'cofferdam stats --json | jq',
  ],
  async run(context, line) {
    const asked = new URLSearchParams()
    for (const [flag, name] of [
      ['since', 'from'],
      ['until', 'to'],
    ] as const) {
      const value = momentFlag(line, flag)
      if (value !== undefined) asked.set(name, value)
    }
    asked.set('step', parse(z.enum(STEPS), textFlag(line, 'step') ?? '1m', '--step'))
    const by = textFlag(line, 'by')
    if (by !== undefined) asked.set('group_by', parse(z.enum(GROUPS), by, '--by'))
    const tenant = textFlag(line, 'tenant')
    if (tenant !== undefined) asked.set('tenant_id', tenant)
    const stats = await openApi(context, line).ask(statsSchema, 'GET', `/v1/stats?${asked.toString()}`)
    const { terminal } = context
    terminal.value(stats)
    const { groups, rest, total } = stats
    const more = [...groups, ...(rest === null ? [] : [{ ...rest, key: 'others' }])]
    const heads = ['FROM', 'ENDED', 'WAIT P50', 'P95', 'RUN P50', 'P95', 'COST']
    const rows = total.count.flatMap((count, step) => {
      if (count === null || count === 0) return []
      const from = new Date(Date.parse(stats.starts_at) + step * stats.step_ms).toISOString()
      return [
        [`${from.slice(0, 16)}Z`, ...cellsOf(total, step), ...more.map((group) => group.count[step] ?? 0)],
      ]
    })
    terminal.lines(table([...heads, ...more.map(({ key }) => key ?? 'no sandbox')], rows))
    if (terminal.json) return EXIT.ok
    if (rows.length === 0) terminal.note('No attempt ended in this range.')
    if (stats.counted_from !== stats.starts_at)
      terminal.note(`Too many attempts: those before ${stats.counted_from} were not counted.`)
    return EXIT.ok
  },
}

function cellsOf(series: SeriesFigureLists, step: number): (string | number | null)[] {
  const times = [series.wait_p50_ms, series.wait_p95_ms, series.run_p50_ms, series.run_p95_ms]
  return [
    series.count[step] ?? null,
    ...times.map((list) => (typeof list[step] === 'number' ? durationWords(list[step]) : null)),
    costWords(series.cost[step] ?? 0),
  ]
}
