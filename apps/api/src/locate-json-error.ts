/**
 * Finds where a text stops being JSON (RFC 8259). `JSON.parse` names the position only for some mistakes. The
 * text can be hostile (a million brackets, one endless string), so this is one pass without recursion. It
 * runs regular expressions only over short pieces, because they would backtrack.
 *
 * States: `value` (a value is expected), `first` (a value or `]`), `key`/`firstKey` (a string, or `}` when
 * first), `colon`, `after` (a `,` or the closing bracket, or the end of the text at the top level).
 */

export interface JsonPosition {
  /** From 1. */
  line: number
  /** From 1, in UTF-16 code units. */
  column: number
  expected: string
}

type State = 'value' | 'first' | 'key' | 'firstKey' | 'colon' | 'after'

const EXPECTED: Record<State, string> = {
  value: 'a value',
  first: 'a value or ]',
  key: 'a key in double quotes',
  firstKey: 'a key in double quotes or }',
  colon: 'a colon',
  after: 'a comma or the closing bracket',
}

/** The first position where `text` is not JSON. Null when it is JSON. Linear in the length of the text. */
export function locateJsonError(text: string): JsonPosition | null {
  const open: ('[' | '{')[] = []
  let state: State = 'value'
  let at = 0
  const wrong = (offset: number): JsonPosition => ({
    ...lineAndColumn(text, offset),
    expected: state === 'after' && open.length === 0 ? 'the end of the text' : EXPECTED[state],
  })
  const close = (): void => {
    open.pop()
    state = 'after'
    at += 1
  }
  for (;;) {
    while (at < text.length && ' \t\n\r'.includes(text.charAt(at))) at += 1
    if (at >= text.length) return state === 'after' && open.length === 0 ? null : wrong(at)
    const char = text.charAt(at)
    const top = open.at(-1)
    const takesValue: boolean = state === 'value' || state === 'first'
    const takesKey: boolean = state === 'key' || state === 'firstKey'
    if (char === ']' && (state === 'first' || (state === 'after' && top === '['))) close()
    else if (char === '}' && (state === 'firstKey' || (state === 'after' && top === '{'))) close()
    else if (takesValue && (char === '[' || char === '{')) {
      open.push(char)
      state = char === '[' ? 'first' : 'firstKey'
      at += 1
    } else if (char === '"' && (takesValue || takesKey)) {
      const end = endOfString(text, at)
      if (end.bad) return { ...lineAndColumn(text, end.at), expected: end.expected }
      at = end.at
      state = takesKey ? 'colon' : 'after'
    } else if (takesValue) {
      const end = endOfLiteral(text, at)
      if (end === at) return wrong(at)
      at = end
      state = 'after'
    } else if (state === 'colon' && char === ':') {
      state = 'value'
      at += 1
    } else if (state === 'after' && char === ',' && top !== undefined) {
      state = top === '[' ? 'value' : 'key'
      at += 1
    } else return wrong(at)
  }
}

function endOfString(
  text: string,
  start: number,
): { at: number; bad: false } | { at: number; bad: true; expected: string } {
  for (let at = start + 1; at < text.length; at += 1) {
    const char = text.charAt(at)
    if (char === '"') return { at: at + 1, bad: false }
    if (char < ' ') return { at, bad: true, expected: 'the control character to be escaped' }
    if (char !== '\\') continue
    at += 1
    if (text.charAt(at) === 'u' && /^[0-9a-fA-F]{4}$/.test(text.slice(at + 1, at + 5))) at += 4
    else if (at >= text.length || !'"\\/bfnrt'.includes(text.charAt(at)))
      return { at, bad: true, expected: 'an escape such as \\n or \\u0041' }
  }
  return { at: text.length, bad: true, expected: 'the closing quote' }
}

/** The end of the `true`, `false`, `null` or number at `start`. `start` itself when there is none. */
function endOfLiteral(text: string, start: number): number {
  for (const word of ['true', 'false', 'null']) if (text.startsWith(word, start)) return start + word.length
  let end = start
  while (end < text.length && '+-.0123456789eE'.includes(text.charAt(end))) end += 1
  const number = text.slice(start, Math.min(end, start + 400))
  // No sensible number is that long. It is accepted unchecked, so that the pattern runs over short texts
  // only.
  if (end - start > 400) return end
  return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(number) ? end : start
}

function lineAndColumn(text: string, offset: number): { line: number; column: number } {
  let line = 1
  for (let at = text.indexOf('\n'); at !== -1 && at < offset; at = text.indexOf('\n', at + 1)) line += 1
  return { line, column: offset - (offset === 0 ? -1 : text.lastIndexOf('\n', offset - 1)) }
}
