/**
 * Finds text that no tracked file may have: machine paths, registry hosts, unfinished work, long lines and
 * source files of too many lines.
 */
import { matchesGlob } from 'node:path'

/** Files with a maximum width of COLUMNS. Source folders can be added, such as `libs/queue/**`. */
const NARROW = ['**/*.md']
const COLUMNS = 110

/** The most lines of a source file, except for tests and tables (docs/decisions/0027). */
const LINES = 250
const SOURCE = /^(?:apps|libs|infra)\/.*\.(?:ts|tsx|css|py|lua|cjs|mjs)$/
const TEST = /\.test\.ts$|\/(?:test|conformance)\//
const TABLES = [
  'libs/client/src/wire.ts',
  'libs/contract/src/error-table.ts',
  'libs/polyclaw/src/settings-table.ts',
  'libs/sandbox/src/process/seccomp.ts',
  'libs/store/src/tables.ts',
]

// Assembled from pieces, so that this file does not report itself.
const MACHINE_PATHS = new RegExp(['work', 'root', 'farm'].map((name) => `(?<![\\w.@}-])/${name}/`).join('|'))
const HOSTS = new RegExp(['registry\\.npmjs', 'deb\\.debian'].map((name) => `${name}\\.org`).join('|'))
const UNDONE = new RegExp(
  `\\b(${['TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX'].join('|')})\\b|\\b(it|test|describe)\\.(skip|only|to${'do'})\\b`,
)
const RESOLVED = /"resolved": "https?:\/\//

/** Problems with file and line. None for a clean text. Skips binary files and the lockfile's hashes. */
export function strayText(path: string, text: string): string[] {
  if (text.includes('\0')) return []
  if (path === 'package-lock.json')
    return RESOLVED.test(text) ? [`${path}: carries registry addresses ("resolved")`] : []
  // Programs that attack a sandbox name the paths that they try to reach.
  const mayNamePaths = path.startsWith('tests/security/programs/')
  const isCode = /^(apps|libs|tests|infra|scripts|bench|examples)\//.test(path)
  const lines = text.split('\n')
  const tooLong = NARROW.some((pattern) => matchesGlob(path, pattern)) ? longLines(path, lines) : new Set()
  const isLong = lines.length - 1 > LINES && SOURCE.test(path) && !TEST.test(path) && !TABLES.includes(path)
  const inAll = isLong ? [`${path}: more than ${LINES} lines`] : []
  const inLines = lines.flatMap((line, index) => {
    const at = `${path}:${index + 1}`
    return [
      ...(!mayNamePaths && MACHINE_PATHS.test(line) ? [`${at}: a path of one machine`] : []),
      ...(HOSTS.test(line) ? [`${at}: the host of a registry`] : []),
      ...(isCode && UNDONE.test(line) ? [`${at}: work left undone or a test switched off`] : []),
      ...(tooLong.has(index) ? [`${at}: longer than ${COLUMNS} columns`] : []),
    ]
  })
  return [...inAll, ...inLines]
}

/** Indexes of long lines. Markdown tables, code blocks and lines without a space cannot be wrapped. */
function longLines(path: string, lines: string[]): Set<number> {
  const isMarkdown = path.endsWith('.md')
  const long = new Set<number>()
  let inCodeBlock = false
  for (const [index, line] of lines.entries()) {
    const content = line.replace(/^\s*(?:[-*] |\d+\. )?/, '')
    if (isMarkdown && content.startsWith('```')) inCodeBlock = !inCodeBlock
    const canBeWrapped = content.includes(' ') && !(isMarkdown && (inCodeBlock || content.startsWith('|')))
    if (canBeWrapped && line.length > COLUMNS) long.add(index)
  }
  return long
}
