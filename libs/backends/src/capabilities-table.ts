/** The capabilities of backends as a Markdown table, for README.md, docs and `doctor`. */
import type { Backend, Capabilities } from '@cofferdam/contract'

const COLUMNS: readonly [string, (capabilities: Capabilities) => string][] = [
  ['languages', (c) => c.languages.join(' ')],
  ['programs', (c) => c.programs.join(' ')],
  ['network', (c) => c.network.join(' ')],
  ['enforces', (c) => c.enforces.join(' ') || 'nothing'],
  ['measures', (c) => c.measures.join(' ')],
  ['sessions', (c) => c.sessions.join(', ') || 'no'],
  ['value', (c) => (c.value ? 'yes' : 'no')],
  ['longest', (c) => (c.maxMs === null ? 'no bound' : `${c.maxMs} ms`)],
]

/** One row per backend, in the order given. */
export function capabilitiesTable(
  backends: Iterable<Pick<Backend, 'name' | 'isolation' | 'capabilities'>>,
): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`
  const titles = ['backend', 'isolation', ...COLUMNS.map(([title]) => title)]
  const rows = [...backends].map(({ name, isolation, capabilities }) =>
    line([`\`${name}\``, isolation, ...COLUMNS.map(([, show]) => show(capabilities))]),
  )
  return [line(titles), line(titles.map(() => '---')), ...rows].join('\n')
}
