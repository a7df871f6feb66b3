/**
 * What an event changed, line by line. Raw SQL writes events, too, so the values before and after may be
 * anything.
 */

export interface ChangedLine {
  name: string
  /** Null where there was nothing. */
  before: string | null
  after: string | null
}

/** Lines of one event. A tenant’s whole policy has about thirty. */
const MOST_LINES = 40
/** Characters of one value. The rest is left out. */
const MOST_TEXT = 200

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

/** The value as JSON, so that a text cannot be taken for a number. Null for none. */
function textOf(value: unknown): string | null {
  if (value === undefined) return null
  const text = JSON.stringify(value)
  return text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text
}

/**
 * `name` is the type of the event, such as `caps`. It names the only line if the value before or after is not
 * an object.
 */
export function changedLines(name: string, before: unknown, after: unknown): ChangedLine[] {
  const [was, is] = [before ?? undefined, after ?? undefined]
  if ((was !== undefined && !isRecord(was)) || (is !== undefined && !isRecord(is)))
    return [{ name, before: textOf(was), after: textOf(is) }]
  const names = [...new Set([...Object.keys(was ?? {}), ...Object.keys(is ?? {})])]
  return names
    .map((field) => ({ name: field, before: textOf(was?.[field]), after: textOf(is?.[field]) }))
    .filter((line) => line.before !== line.after)
    .slice(0, MOST_LINES)
}
