/** Settings as fields of a form: their texts, what was changed, and what somebody else changed meanwhile. */
import { count, counted } from '../../../words/figures.ts'

export interface Field {
  /** Its name in the API's object. With `read` and `write`, any name. */
  name: string
  words: string
  /** lines: a set of texts, one per line. Their order does not matter. */
  kind: 'number' | 'flag' | 'choice' | 'lines'
  /** The bounds of a number. */
  min?: number
  max?: number
  /** Whether a number may have a fraction. Default: whole numbers only. */
  fraction?: boolean
  /**
   * What an empty field means, in words. The API gets null for it. Without this text, a number must not be
   * empty.
   */
  empty?: string
  /** The values of a choice. */
  choices?: readonly string[]
  /** What each line has to be. */
  line?: RegExp
  /** Lines that stand for the whole value, so that no other may stand beside them. */
  alone?: readonly string[]
  /** Whether a line is a name and a value, so that no name may stand there twice. */
  isMap?: boolean
  /** Whether the lines are secrets. They are counted, never shown again. */
  isSecret?: boolean
  note?: string
  /** The value in an object of the API. Default: the property `name`. */
  read?: (of: Settings) => unknown
  /**
   * Returns what to send for a value. The second argument is what the API has now. Default: the property
   * `name` with this value.
   */
  write?: (value: Value, now: Settings) => Settings
}

/** An object of the API whose fields are read by name. */
// oxlint-disable-next-line typescript/no-explicit-any
export type Settings = Record<string, any>
export type Value = string | number | boolean | null | string[] | Settings

/** The text of each field. Empty for null. */
export type Draft = Readonly<Record<string, string>>

export interface Change {
  field: Field
  before: string
  after: string
}

/** The lines of a text: trimmed, sorted, each once, and none empty. */
export const linesOf = (text: string): string[] =>
  [...new Set(text.split('\n').map((line) => line.trim()))].filter((line) => line !== '').toSorted()

/** The text of a field in an object of the API. */
export function textIn(of: object, { name, kind, read }: Field): string {
  const settings: Settings = of
  const value: unknown = read === undefined ? settings[name] : read(settings)
  if (Array.isArray(value)) return kind === 'lines' ? linesOf(value.join('\n')).join('\n') : value.join(', ')
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

/** One form of a text: the same number or set of lines gives the same text, however it was typed. */
function normal({ kind, isMap }: Field, text: string): string {
  if (kind === 'lines') return linesOf(isMap === true ? text.replaceAll(/[ \t]+/g, ' ') : text).join('\n')
  return kind === 'number' && text !== '' ? String(Number(text)) : text
}

export const draftOf = (fields: readonly Field[], of: object): Draft =>
  Object.fromEntries(fields.map((field) => [field.name, textIn(of, field)]))

/** The fields whose text in the draft differs from what was read. */
export const changesOf = (fields: readonly Field[], base: object, draft: Draft): Change[] =>
  fields
    .map((field) => ({ field, before: textIn(base, field), after: normal(field, draft[field.name] ?? '') }))
    .filter(({ before, after }) => before !== after)

/**
 * Fields that somebody else changed between `base` and `now`. Fields that now have the value of the draft are
 * left out: there is nothing to decide. The change may even be one’s own, if the answer to it was lost.
 */
export const othersOf = (fields: readonly Field[], base: object, now: object, draft: Draft): Field[] =>
  fields.filter((field) => {
    const is = textIn(now, field)
    return is !== textIn(base, field) && is !== normal(field, draft[field.name] ?? '')
  })

/**
 * The body of a PATCH with these changes. If only a part of a property changes, its other parts come from
 * `now`.
 */
export function patchOf(changes: readonly Change[], now: object): Settings {
  const patch: Settings = {}
  for (const { field, after } of changes) {
    const value = valueOf(field, after)
    Object.assign(patch, field.write?.(value, { ...now, ...patch }) ?? { [field.name]: value })
  }
  return patch
}

function valueOf({ kind, empty }: Field, text: string): Value {
  if (text === '' && empty !== undefined) return null
  if (kind === 'lines') return linesOf(text)
  if (kind === 'number') return Number(text)
  return kind === 'flag' ? text === 'true' : text
}

/** Lines of one value that are shown. A policy may have thousands. */
const MOST_LINES = 12

/** A text of a field as a person reads it. Lines that all texts of `beside` contain are only counted. */
export function wordsOf(
  { kind, empty, isSecret }: Field,
  text: string,
  beside: readonly string[] = [],
): string {
  if (text === '') return empty ?? '–'
  if (kind === 'number') return count(Number(text))
  if (kind === 'flag') return text === 'true' ? 'yes' : 'no'
  if (kind !== 'lines') return text
  const lines = text.split('\n')
  if (isSecret === true) return counted(lines.length, 'value')
  const others = beside.map((other) => new Set(other.split('\n')))
  const own = lines.filter((line) => others.length === 0 || others.some((other) => !other.has(line)))
  const [more, same] = [own.length - MOST_LINES, lines.length - own.length]
  return [
    ...own.slice(0, MOST_LINES),
    ...(more > 0 ? [`and ${count(more)} more`] : []),
    ...(same > 0 ? [`${count(same)} in common`] : []),
  ].join('\n')
}

/** What is wrong with the lines of a field. Empty if nothing is. */
export function lineProblem({ line: form, alone = [], isMap, note = '' }: Field, text: string): string {
  const lines = linesOf(text)
  const names = new Set<string>()
  const isAgain = (line: string): boolean => names.size === names.add(line.split(/\s/)[0] ?? '').size
  const wrong = lines.find(
    (line) =>
      form?.test(line) === false ||
      (lines.length > 1 && alone.includes(line)) ||
      (isMap === true && isAgain(line)),
  )
  return wrong === undefined ? '' : `${wrong.slice(0, 80)}: ${note}`
}
