/** Finds the messages that the source logs: calls of a logger whose last argument is a literal. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))

export interface LogCall {
  file: string
  level: string
  message: string
}

/** Matches `logger.warn(`, `deps.log?.error(`, `request.log[level](`. */
const CALL = /\b(?:log|logger)\??(?:\.(trace|debug|info|warn|error|fatal)|\[(\w+)\])(?:\?\.)?\(/g

/** All calls in apps and libs, except those that pass on a message in a variable. */
export function findLogCalls(): LogCall[] {
  return globSync('{apps,libs,libs/backends}/*/src/**/*.ts', { cwd: ROOT })
    .filter((file) => !file.endsWith('.test.ts'))
    .toSorted()
    .flatMap((file) => callsOf(file, readFileSync(ROOT + file, 'utf8')))
}

export function callsOf(file: string, text: string): LogCall[] {
  return [...text.matchAll(CALL)].flatMap((match) => {
    const body = argumentsAt(text, match.index + match[0].length)
    const message = lastLiteral(body)
    return message === null ? [] : [{ file, level: match[1] ?? 'any', message }]
  })
}

/** The text up to the parenthesis that closes the call. */
function argumentsAt(text: string, from: number): string {
  let depth = 1
  let quote = ''
  for (let at = from; at < text.length; at++) {
    const char = text.charAt(at)
    if (char === '\\') at++
    else if (quote !== '') quote = char === quote ? '' : quote
    else if (`'"\``.includes(char)) quote = char
    else if ('([{'.includes(char)) depth++
    else if (')]}'.includes(char) && --depth === 0) return text.slice(from, at)
  }
  return text.slice(from)
}

/** The literal at the end of the arguments. Placeholders of a template become `…`. */
function lastLiteral(body: string): string | null {
  const found = /(?:^|,\s*)(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|`([^`]*)`)\s*,?\s*$/.exec(body)
  const literal = found?.[1] ?? found?.[2] ?? found?.[3]
  return literal === undefined ? null : literal.replaceAll(/\$\{[^}]*\}/g, '…').replaceAll(/\\(.)/g, '$1')
}
