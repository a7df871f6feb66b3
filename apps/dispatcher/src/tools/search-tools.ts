/** glob and grep: finding files by their names and by what is in them. Bounds are those of the SDK. */
import { z } from 'zod'
import { required } from './file-tools.ts'
import { planPython, pythonSource } from './python-tool.ts'
import { optional, parseInput, ToolInputError, type Tool } from './tool.ts'

const SOURCES = {
  glob: pythonSource('common', 'glob_braces', 'glob_pattern', 'glob'),
  grep: pythonSource('common', 'js_regex', 'grep'),
}

/** Folders into which neither tool looks. */
const SKIPPED = ['.git', 'node_modules']
/** Matches that glob looks at, and entries that grep visits, before they stop. */
const MOST_ENTRIES = 50_000
const GLOB = { most: 200, most_entries: MOST_ENTRIES, timeout_ms: 30_000, skipped: SKIPPED }
const GREP = {
  /** UTF-16 units of the answer. */
  most: 100 * 1024,
  /** UTF-16 units of a line. Longer ones are skipped, because a regex may backtrack over them. */
  most_line: 2000,
  most_depth: 40,
  most_entries: MOST_ENTRIES,
  timeout_ms: 60_000,
  skipped: SKIPPED,
}
/** Extra time after the tool's own limit, in which Python can start and report. */
const MARGIN_MS = 10_000
/** ripgrep gets the pattern as an argument, and no argument may have more than 128 KiB. */
const MAX_PATTERN_BYTES = 64 * 1024

const searchInput = z.object({ pattern: optional(z.string()), path: optional(z.string()) })

export const glob: Tool = {
  name: 'glob',
  description:
    'Match files under the workdir against a glob pattern. Results are mtime-sorted, newest first.',
  inputSchema: {
    type: 'object',
    properties: {
      pattern: { type: 'string' },
      path: { type: 'string', description: 'Directory to search in. Defaults to the workdir.' },
    },
    required: ['pattern'],
  },
  plan(input, roots) {
    const { pattern, path } = parseInput('glob', searchInput, input)
    const call = { pattern: required('glob', 'pattern', pattern), path: path ?? '', ...GLOB }
    return planPython('glob', SOURCES.glob, call, roots, GLOB.timeout_ms + MARGIN_MS)
  },
}

export const grep: Tool = {
  name: 'grep',
  description: 'Search file contents for a regex. Uses ripgrep if available, otherwise a built-in walker.',
  inputSchema: {
    type: 'object',
    properties: { pattern: { type: 'string' }, path: { type: 'string' } },
    required: ['pattern'],
  },
  plan(input, roots) {
    const parsed = parseInput('grep', searchInput, input)
    const pattern = required('grep', 'pattern', parsed.pattern)
    if (Buffer.byteLength(pattern) > MAX_PATTERN_BYTES)
      throw new ToolInputError(`grep: the pattern has more than ${MAX_PATTERN_BYTES} bytes`)
    if (pattern.includes('\0')) throw new ToolInputError('grep: the pattern contains a NUL character')
    const call = { pattern, path: parsed.path ?? '', invalid: problemOf(pattern), ...GREP }
    return planPython('grep', SOURCES.grep, call, roots, GREP.timeout_ms + MARGIN_MS)
  },
}

/**
 * JavaScript's error for a pattern, or null. The search in Python reports this error, as the SDK does.
 * ripgrep reports its own.
 */
function problemOf(pattern: string): string | null {
  try {
    new RegExp(pattern)
    return null
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
