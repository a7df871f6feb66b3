/** Cuts long text for a model: the head and the tail stay, with the number of characters between them. */

/** The most characters of the mark that replaces the removed text. */
const MARK_MAX = 60

const mark = (left: number): string => `… ${left} characters left out …`

/**
 * At most `max` characters of `text`: `headShare` of them from its head and the rest from its tail. If `max`
 * is too small for both, only the tail is kept, because a program prints last what went wrong.
 */
export function headAndTail(text: string, max: number, headShare = 0.75): string {
  if (text.length <= max) return text
  const room = max - MARK_MAX
  if (room <= 0) return wellFormed(text.slice(text.length - Math.max(0, max)))
  const head = Math.floor(room * headShare)
  const tail = room - head
  const start = wellFormed(text.slice(0, head))
  return `${start}\n${mark(text.length - room)}\n${wellFormed(text.slice(text.length - tail))}`
}

/** Lines at the end of an error's text that say what it was and where. */
const LAST_LINES = 12

/**
 * At most `max` characters of the text of an error. Its last lines are kept whole, as long as there is room
 * for them: in a traceback they name the error and the line that raised it.
 */
export function keepLastLines(text: string, max: number): string {
  if (text.length <= max) return text
  const room = max - MARK_MAX
  if (room <= 0) return headAndTail(text, max)
  const lines = text.trimEnd().split('\n')
  let tail = ''
  for (const line of lines.slice(-LAST_LINES).toReversed()) {
    const longer = tail === '' ? line : `${line}\n${tail}`
    if (longer.length > room) break
    tail = longer
  }
  // The last line alone is too long. Half of the kept text is its head, because the head names the error.
  if (tail === '') return headAndTail(lines.at(-1) ?? '', max, 0.5)
  const head = wellFormed(text.slice(0, Math.floor((room - tail.length) / 4)))
  const more = room - tail.length - head.length
  const end = text.trimEnd()
  const before = end.slice(head.length, end.length - tail.length)
  const kept = wellFormed(before.slice(Math.max(0, before.length - more)))
  const left = Math.max(0, before.length - more)
  return left === 0 ? end : `${head}\n${mark(left)}\n${kept}${tail}`
}

/** Removes the half of a character that a cut left at either end. */
const wellFormed = (text: string): string => text.replaceAll(/^[\udc00-\udfff]|[\ud800-\udbff]$/g, '')
