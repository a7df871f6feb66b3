/**
 * Text of programs as a model and a person may read it. Programs are hostile: their output could move a
 * terminal's cursor, or hide words that only a model sees.
 */
import { stripVTControlCharacters } from 'node:util'

/**
 * Control characters except tab and line feed, characters that turn the direction of text, and the tag
 * characters of Unicode, which no font shows.
 */
// oxlint-disable-next-line no-control-regex
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu

/** `text` without terminal sequences. Other characters that hide or rearrange text become `�`. */
export function cleanText(text: string): string {
  return stripVTControlCharacters(text.replaceAll(/\r\n?/g, '\n'))
    .replaceAll(INVISIBLE, '\ufffd')
    .toWellFormed()
}

/** At most `max` characters of `text`: three quarters from its head and the rest from its tail. */
export function headAndTail(text: string, max: number): string {
  if (text.length <= max) return text
  const head = Math.floor(max * 0.75)
  const left = text.length - max
  return `${text.slice(0, head)}\n… ${left} characters left out …\n${text.slice(head + left)}`.toWellFormed()
}
