/** The comparison of two executions as text for people. */
import type { Comparison, TextDiff } from '@cofferdam/contract'
import { durationWords } from './show-result.ts'
import { table } from './table.ts'
import type { Terminal } from './terminal.ts'

type Side = Comparison['first']

const MARKS = { same: ' ', removed: '-', added: '+', skipped: '@' } as const
const COLOURS = { same: 'dim', removed: 'red', added: 'green', skipped: 'dim' } as const

const inMiB = (bytes: number | null | undefined): string | null =>
  bytes == null ? null : `${(bytes / 1_048_576).toFixed(1)} MiB`
const inWords = (ms: number | null | undefined): string | null => (ms == null ? null : durationWords(ms))

const ROWS: readonly [string, (side: Side) => string | number | null][] = [
  ['execution', ({ execution_id: id }) => id],
  ['ending', ({ ending }) => ending],
  ['exit code', ({ exit_code: code }) => code],
  ['signal', ({ signal }) => signal],
  ['backend', ({ backend }) => backend],
  ['in the queue', ({ queue_ms: ms }) => inWords(ms)],
  ['run', ({ duration_ms: ms }) => inWords(ms)],
  ['CPU time', ({ usage }) => inWords(usage?.cpu_ms)],
  ['memory', ({ usage }) => inMiB(usage?.peak_memory_bytes)],
  ['stdout', ({ stdout_bytes: bytes }) => `${bytes} B`],
  ['stderr', ({ stderr_bytes: bytes }) => `${bytes} B`],
]

export function comparisonLines(found: Comparison, terminal: Terminal): string[] {
  const { first, second, differences } = found
  const rows = ROWS.map(([name, of]) => [name, of(first), of(second)] as const)
  const shown = rows.filter(([, one, other]) => one !== null || other !== null)
  return [
    terminal.style('bold', differences.length === 0 ? 'The results are alike.' : 'The results differ in:') +
      (differences.length === 0 ? '' : ` ${differences.join(', ')}`),
    ...table(['', 'FIRST', 'AGAIN'], shown).map((line) => `  ${line}`),
    ...(differences.includes('value')
      ? [`  value      ${JSON.stringify(first.value) ?? '-'} → ${JSON.stringify(second.value) ?? '-'}`]
      : []),
    ...found.artifacts.map(({ path, change }) => `  artifact   ${path} ${change}`),
    ...diffLines('stdout', found.stdout, terminal),
    ...diffLines('stderr', found.stderr, terminal),
  ]
}

function diffLines(name: string, diff: TextDiff, terminal: Terminal): string[] {
  if (diff.same) return []
  const about = diff.exact ? '' : ' (too different to find every common line)'
  return [
    `  ${name}: ${diff.removed} lines only before, ${diff.added} only now${about}`,
    ...diff.lines.map(({ kind, text }) => terminal.style(COLOURS[kind], `    ${MARKS[kind]} ${text}`)),
  ]
}
