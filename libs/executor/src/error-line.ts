/**
 * Finds the line of stderr that tells the error and where it happened. Interpreters end an uncaught error
 * differently: Python with the error, Node with its own version after a stack, bash with a line that starts
 * with its file. For other programs it is the last line.
 */

export interface ErrorLine {
  /** Such as `ValueError: no such colour`. Empty when stderr is. */
  line: string
  /** Such as `…/prices.py:3`, with the whole path that the interpreter printed. Null if no line names one. */
  place: string | null
}

/** Longer than any stack that interpreters print, and short enough to search. */
const TAIL = 16 * 1024

/** Reads the end of the visible stderr of any program. The result may be forged, and is bounded. */
export function findErrorLine(stderr: string): ErrorLine {
  const lines = stderr.slice(-TAIL).trimEnd().split('\n')
  return (
    fromNode(lines) ??
    fromPython(lines) ??
    fromKeptNode(lines) ??
    fromBash(lines) ?? { line: lastOf(lines), place: null }
  )
}

/** `ValueError: no such colour (…/prices.py:3)`. */
export const describeErrorLine = ({ line, place }: ErrorLine): string =>
  place === null ? line : `${line} (${place})`

const lastOf = (lines: readonly string[]): string => lines.at(-1)?.trim() ?? ''

// ---- Node: `file:line`, the source, a caret, the error, its stack, and last `Node.js v26.10.0`.

const FRAME = /^\s+at (?:.* \()?(?:file:\/\/)?([^()]+):(\d+):\d+\)?(?: \{)?$/

function fromNode(lines: readonly string[]): ErrorLine | null {
  if (!/^Node\.js v\d+\.\d+\.\d+$/.test(lastOf(lines))) return null
  const caret = lines.findLastIndex((line) => /^\s*\^+\s*$/.test(line))
  const begin = lines.findIndex((line, at) => at > caret && line !== '')
  // `file:line` and the caret may be cut off if the source line is a whole minified file. Then find the error
  // just before the first frame.
  const first = lines.findIndex((line, at) => at > caret && FRAME.test(line))
  const own = caret >= 0 ? begin : first - 1
  if (own < 0 || own >= lines.length - 1) return null
  return { line: withDetail(lines, own), place: headOf(lines, caret) ?? frameOf(lines, own) }
}

/** The details of an assertion are in the next paragraph. */
function withDetail(lines: readonly string[], own: number): string {
  const line = lines[own]?.trim() ?? ''
  const detail = lines.find((text, at) => at > own && text !== '')
  return line.endsWith(':') && detail !== undefined && !FRAME.test(detail) ? `${line} ${detail.trim()}` : line
}

/**
 * Returns where the error was thrown: `file:line`, two or three lines above the caret. Null if that is in
 * Node's own code.
 */
function headOf(lines: readonly string[], caret: number): string | null {
  for (const line of [lines[caret - 2], lines[caret - 3]]) {
    const [, file, number] = /^(?:file:\/\/)?(\/.*):(\d+)$/.exec(line ?? '') ?? []
    if (file !== undefined) return `${file}:${number}`
  }
  return null
}

function frameOf(lines: readonly string[], own: number): string | null {
  for (const line of lines.slice(own)) {
    const [, file, number] = FRAME.exec(line) ?? []
    if (file?.startsWith('/') === true) return `${file}:${number}`
  }
  return null
}

// ---- Node as a session's interpreter: like Node, but with `Uncaught ` in front and without the last line.

const UNCAUGHT = 'Uncaught '

function fromKeptNode(lines: readonly string[]): ErrorLine | null {
  const begin = lines.findLastIndex((line) => line.startsWith(UNCAUGHT))
  if (begin < 0) return null
  const [first = '', ...rest] = lines.slice(begin)
  const [, file, number] = /^Uncaught (<run \d+>):(\d+)$/.exec(first) ?? []
  if (file === undefined) {
    const frame = rest
      .map((line) => FRAME.exec(line))
      .find((found) => found?.[1]?.startsWith('<run ') === true)
    // Other programs may also print a line that starts with `Uncaught `, and then continue.
    if (frame === undefined && rest.length > 0) return null
    return { line: first.slice(UNCAUGHT.length), place: frame ? `${frame[1]}:${frame[2]}` : null }
  }
  // A syntax error is shown first: its line, with a caret below.
  const caret = rest.findIndex((line) => /^\s*\^+\s*$/.test(line))
  const line = rest.find((text, at) => at > caret && text !== '')
  return line === undefined ? null : { line, place: `${file}:${number}` }
}

// ---- Python: indented frames, then the error at the margin. Exception groups have a bar in front.

const PYTHON_FRAME = /^ {2}File "(.+)", line (\d+)/
const LIBRARY = /\/(?:lib\/python[\d.]+|site-packages|dist-packages)\/|^<frozen /

function fromPython(printed: readonly string[]): ErrorLine | null {
  const lines = printed.map((line) => line.replace(/^ {2}[|+] /, ''))
  const last = lines.findLastIndex((line) => PYTHON_FRAME.test(line))
  if (last < 0) return null
  const own = lines.findIndex((line, at) => at > last && /^[A-Za-z_]/.test(line))
  // Accept only the form of an error: `name`, or `name: message`.
  if (own < 0 || !/^[\w.]+(?::|$)|^[\w.]*Group: /.test(lines[own] ?? '')) return null
  // Ignore everything before this traceback, which may belong to an earlier error.
  const begin = lines.findLastIndex(
    (line, at) => at < last && line.endsWith('Traceback (most recent call last):'),
  )
  const frames = lines.slice(begin + 1, own).flatMap((line) => {
    const [, file = '', number] = PYTHON_FRAME.exec(line) ?? []
    return number === undefined ? [] : [{ file, number }]
  })
  const place = frames.findLast(({ file }) => !LIBRARY.test(file)) ?? frames.at(-1)
  return {
    line: lines[own]?.trim() ?? '',
    place: place === undefined ? null : `${place.file}:${place.number}`,
  }
}

// ---- bash: `main.sh: line 3: nope: command not found`. A syntax error has the source in a second line.

const BASH = /^(?:bash: )?(.{1,512}?): line (\d+): (.+)$/

function fromBash(lines: readonly string[]): ErrorLine | null {
  const last = BASH.exec(lastOf(lines))
  const before = BASH.exec(lines.at(-2)?.trim() ?? '')
  const isSource = last?.[3]?.startsWith('`') === true && before?.[3]?.includes('syntax error') === true
  const [, file, number, line] = (isSource ? before : last) ?? []
  return file === undefined || line === undefined ? null : { line, place: `${file}:${number}` }
}
