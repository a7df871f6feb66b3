/**
 * Finds text that no tracked file may have: machine paths, registry hosts, unfinished work, long lines and
 * source files of too many lines.
 */
/** Maximum width of Markdown pages, and of the comments of source files. */
const COLUMNS = 110
const COMMENT: readonly [file: RegExp, line: RegExp][] = [
  [/\.(?:ts|tsx|cjs|mjs)$/, /^\s*(?:\/\/|\/?\*)/],
  [/\.(?:py|sh|ya?ml)$/, /^\s*#/],
  [/\.lua$/, /^\s*--/],
]
/** A drawing or a table in a comment: it has a gap, a line or an arrow. */
const DRAWN = /\S {2,}\S|[\u2190-\u21ff\u2500-\u25ff]/

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
  const tooLong = path.endsWith('.md') ? longLines(lines) : longComments(path, lines)
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

/** Indexes of long lines of a page. Tables, code blocks and lines without a space cannot be wrapped. */
function longLines(lines: string[]): Set<number> {
  const long = new Set<number>()
  let inCodeBlock = false
  for (const [index, line] of lines.entries()) {
    const content = line.replace(/^\s*(?:[-*] |\d+\. )?/, '')
    if (content.startsWith('```')) inCodeBlock = !inCodeBlock
    const canBeWrapped = content.includes(' ') && !inCodeBlock && !content.startsWith('|')
    if (canBeWrapped && line.length > COLUMNS) long.add(index)
  }
  return long
}

/** Indexes of long lines that have only a comment, except for drawings and lines without a space. */
function longComments(path: string, lines: string[]): Set<number> {
  const pattern = COMMENT.find(([file]) => file.test(path))?.[1]
  if (pattern === undefined) return new Set()
  const isLong = (line: string): boolean => {
    const content = line.replace(pattern, '').trim()
    return line.length > COLUMNS && pattern.test(line) && content.includes(' ') && !DRAWN.test(content)
  }
  return new Set(lines.flatMap((line, index) => (isLong(line) ? [index] : [])))
}
