/**
 * Reads a program’s output for the screen. The 16 colours, bold and underline of ANSI escapes are kept;
 * every other escape and control character is dropped. Nothing in the output becomes a link or markup.
 */
import { plainText } from '../../../words/plain.ts'

/** How a piece of text looks. Colours are 0 to 15, as ECMA-48 and aixterm number them. */
export interface Look {
  colour: number | null
  ground: number | null
  bold: boolean
  underline: boolean
}

export interface Piece {
  text: string
  look: Look
}

export const PLAIN: Look = { colour: null, ground: null, bold: false, underline: false }

/** CSI with its parameters and final character, which may be cut off. */
const CSI = String.raw`\[([0-9;:?<=>]*)[ -/]*([@-~])?`
/** OSC up to BEL or ST: titles, links. */
const OSC = String.raw`\][^\u0007\u001b]*(?:\u0007|\u001b\\)?`
/** Other strings up to ST. */
const STRINGS = String.raw`[PX^_][^\u001b]*(?:\u001b\\)?`
/** An escape of any kind. One that is cut off at the end of the text matches up to there. */
const ESCAPE = new RegExp(String.raw`\u001b(?:${CSI}|${OSC}|${STRINGS}|[ -/]*[0-~])?`, 'g')

/** The look after the codes of one SGR escape. Codes of other colours than the 16 change nothing. */
function afterCodes(look: Look, codes: string): Look {
  let next = look
  const numbers = codes.split(/[;:]/).map((code) => (code === '' ? 0 : Number(code)))
  for (let index = 0; index < numbers.length; index += 1) {
    const code = numbers[index] ?? 0
    if (code === 0) next = PLAIN
    else if (code === 1) next = { ...next, bold: true }
    else if (code === 4) next = { ...next, underline: true }
    else if (code === 22) next = { ...next, bold: false }
    else if (code === 24) next = { ...next, underline: false }
    else if (code >= 30 && code <= 37) next = { ...next, colour: code - 30 }
    else if (code === 39) next = { ...next, colour: null }
    else if (code >= 40 && code <= 47) next = { ...next, ground: code - 40 }
    else if (code === 49) next = { ...next, ground: null }
    else if (code >= 90 && code <= 97) next = { ...next, colour: code - 82 }
    else if (code >= 100 && code <= 107) next = { ...next, ground: code - 92 }
    // 38;5;n and 38;2;r;g;b set one colour each. The numbers after 38 or 48 belong to it and are skipped.
    else if (code === 38 || code === 48) index += numbers[index + 1] === 5 ? 2 : 4
  }
  return next
}

/** The pieces of one line, and the look with which the next one begins. */
export function readLine(line: string, before: Look): { pieces: Piece[]; look: Look } {
  const pieces: Piece[] = []
  let look = before
  let from = 0
  const add = (text: string): void => {
    const shown = plainText(text)
    const last = pieces.at(-1)
    if (last?.look === look) last.text += shown
    else if (shown !== '') pieces.push({ text: shown, look })
  }
  for (const found of line.includes('\u001b') ? line.matchAll(ESCAPE) : []) {
    add(line.slice(from, found.index))
    from = found.index + found[0].length
    if (found[2] === 'm') look = afterCodes(look, found[1] ?? '')
  }
  add(line.slice(from))
  return { pieces, look }
}

/** One line as a screen shows it, without its colours. */
export const plainLine = (line: string): string =>
  readLine(line, PLAIN)
    .pieces.map(({ text }) => text)
    .join('')

/**
 * Removes colours and other escape sequences from a text that a program may have written. Keeps its line
 * breaks, and its first `most` characters.
 */
export const withoutEscapes = (text: string, most = 2000): string =>
  plainLine(text.slice(0, most)) + (text.length > most ? ' …' : '')
