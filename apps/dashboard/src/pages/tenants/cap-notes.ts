/** What one should know before caps are changed. */
import type { UsageNow } from '@cofferdam/client'
import { count, counted } from '../../words/figures.ts'
import type { Change } from './settings/fields.ts'
import { loadWords, type Load } from './tenant.ts'

/** What is used now and how many wait, and what the changes mean for them. */
export function notesOf(changes: readonly Change[], usage: UsageNow | null, load: Load | null): string[] {
  const after = (name: string): number | null => {
    const text = changes.find(({ field }) => field.name === name)?.after
    return text === undefined || text === '' ? null : Number(text)
  }
  const { used, limit } = usage?.tenant_daily ?? { used: 0, limit: 0 }
  const running = usage?.concurrency.running ?? 0
  const [daily, atOnce, queued] = [after('tenant_daily'), after('concurrency'), after('max_queued')]
  const now = [usage !== null && `${count(used)} of ${count(limit)} used today`, loadWords(load)].filter(
    Boolean,
  )
  const cpu = usage?.tenant_daily_cpu
  const cost = usage?.tenant_daily_cost
  return [
    now.length > 0 && `Now: ${now.join('; ')}.`,
    daily === 0 && 'A cap of 0 stops the tenant: nothing starts any more.',
    daily !== null &&
      daily > 0 &&
      daily <= used &&
      'That much is used already: nothing more starts today (UTC).',
    atOnce !== null &&
      atOnce < running &&
      `${counted(running, 'attempt')} run now, and go on. New ones wait.`,
    queued !== null &&
      load !== null &&
      queued < load.waiting &&
      'More wait already. They stay; new ones are refused.',
    after('tenant_daily_cpu_seconds') !== null && cpu && `CPU seconds used today: ${count(cpu.used)}.`,
    after('tenant_daily_cost') !== null && cost && `Cost of today so far: ${count(cost.used)} millionths.`,
  ].filter((note) => typeof note === 'string')
}
