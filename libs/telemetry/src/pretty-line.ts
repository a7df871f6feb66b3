/** Formats a JSON log line for people: time, level, message, then the other fields as key=value. */

const LEVELS: Record<number, { name: string; colour: number }> = {
  10: { name: 'TRACE', colour: 90 },
  20: { name: 'DEBUG', colour: 90 },
  30: { name: 'INFO ', colour: 32 },
  40: { name: 'WARN ', colour: 33 },
  50: { name: 'ERROR', colour: 31 },
  60: { name: 'FATAL', colour: 31 },
}

/** Fields that are already shown, or of no use to a reader. */
const LEFT_OUT = new Set(['level', 'time', 'msg', 'err', 'pid', 'hostname', 'service', 'span_id'])

/**
 * Formats a log line. The result ends with a newline. A line that is not a JSON object is returned unchanged.
 */
export function prettyLine(line: string, colours: boolean): string {
  const facts = readFacts(line)
  if (facts === null) return line
  const paint = (code: number, text: string) => (colours ? `\u001B[${code}m${text}\u001B[0m` : text)
  const level = LEVELS[Number(facts['level'])] ?? { name: String(facts['level']), colour: 37 }
  const time = new Date(Number(facts['time'])).toISOString().slice(11, 23)
  const rest = Object.entries(facts)
    .filter(([key]) => !LEFT_OUT.has(key))
    .map(([key, value]) => `${key}=${textOf(value)}`)
  const head = [paint(90, time), paint(level.colour, level.name), printable(textOf(facts['msg']))]
  const tail = rest.length === 0 ? [] : [paint(90, printable(rest.join(' ')))]
  return `${[...head, ...tail].join(' ')}\n${errorLines(facts['err'])}`
}

const textOf = (value: unknown): string => (typeof value === 'string' ? value : (JSON.stringify(value) ?? ''))

function readFacts(line: string): Record<string, unknown> | null {
  try {
    const facts: unknown = JSON.parse(line)
    return typeof facts === 'object' && facts !== null ? { ...facts } : null
  } catch {
    return null
  }
}

function errorLines(error: unknown): string {
  if (typeof error !== 'object' || error === null) return ''
  const text = 'stack' in error ? String(error.stack) : 'message' in error ? String(error.message) : ''
  return text === ''
    ? ''
    : `${text
        .split('\n')
        .map((line) => `    ${printable(line)}`)
        .join('\n')}\n`
}

/** Control characters in names and messages of programs must not reach the terminal. */
// eslint-disable-next-line no-control-regex
const printable = (text: string): string => text.replaceAll(/[\u0000-\u001F\u007F-\u009F]/g, ' ')
