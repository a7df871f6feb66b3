/**
 * Makes a program's output safe to show on a terminal. The programs are untrusted, and a terminal obeys what it prints:
 * titles, cursor moves, clipboard writes, answers typed back. Text, tabs, line ends and colours (SGR) pass; every other
 * control character is shown in caret notation.
 */

/** Longest unfinished sequence that is held back for the next chunk; a longer one is no colour. */
const LONGEST_SGR = 64

/* eslint-disable no-control-regex -- control characters are what this file is about */
const UNFINISHED_SGR = /\x1b(?:\[[0-9;:]*)?$/
const SGR_OR_CONTROL = /(\x1b\[[0-9;:]*m)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\x80-\x9f]/g
/* eslint-enable no-control-regex */

const caret = (character: string): string => {
  const code = character.charCodeAt(0)
  if (code === 0x7f) return '^?'
  return code < 0x20 ? `^${String.fromCharCode(code + 0x40)}` : `\\x${code.toString(16)}`
}

/** Returns a filter for one stream; it keeps an unfinished colour sequence until the next chunk. */
export function createScreenFilter(): (text: string) => string {
  let held = ''
  return (text) => {
    const whole = held + text
    const tail = UNFINISHED_SGR.exec(whole)?.[0] ?? ''
    held = tail.length <= LONGEST_SGR ? tail : ''
    return whole
      .slice(0, whole.length - held.length)
      .replace(SGR_OR_CONTROL, (found, sgr: string | undefined) => sgr ?? caret(found))
  }
}
