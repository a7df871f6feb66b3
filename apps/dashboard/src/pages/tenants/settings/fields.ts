/** Settings as fields of a form: their texts, what was changed, and what somebody else changed meanwhile. */
import { count } from '../../../words/figures.ts'

export interface Field {
  /** Its name in the API. */
  name: string
  words: string
  kind: 'number' | 'flag' | 'choice'
  /** The bounds of a number. */
  min?: number
  max?: number
  /** Whether a number may have a fraction. Default: whole numbers only. */
  fraction?: boolean
  /** What an empty field stands for; null in the API. Without it the field needs a value. */
  empty?: string
  /** The values that there are. */
  choices?: readonly string[]
  note?: string
}

/** The text of each field. Empty for null. */
export type Draft = Readonly<Record<string, string>>

export interface Change {
  field: Field
  before: string
  after: string
}

/** The text of a field in an object of the API. */
export function textIn(of: object, { name }: Field): string {
  const value: unknown = Reflect.get(of, name)
  if (typeof value === 'string') return value
  return typeof value === 'number' || typeof value === 'boolean' ? String(value) : ''
}

/** The same number is the same text, however it was typed. */
const normal = ({ kind }: Field, text: string): string =>
  kind === 'number' && text !== '' ? String(Number(text)) : text

export const draftOf = (fields: readonly Field[], of: object): Draft =>
  Object.fromEntries(fields.map((field) => [field.name, textIn(of, field)]))

/** What a draft changes of what was read. */
export const changesOf = (fields: readonly Field[], base: object, draft: Draft): Change[] =>
  fields
    .map((field) => ({ field, before: textIn(base, field), after: normal(field, draft[field.name] ?? '') }))
    .filter(({ before, after }) => before !== after)

/**
 * Fields that somebody else changed between `base` and `now`. Not those that have the value of the draft now:
 * there is nothing to decide, and they may be one’s own change, whose answer was lost.
 */
export const othersOf = (fields: readonly Field[], base: object, now: object, draft: Draft): Field[] =>
  fields.filter((field) => {
    const is = textIn(now, field)
    return is !== textIn(base, field) && is !== normal(field, draft[field.name] ?? '')
  })

/** The body of a PATCH with these changes. */
export const patchOf = (changes: readonly Change[]): Record<string, string | number | boolean | null> =>
  Object.fromEntries(changes.map(({ field, after }) => [field.name, valueOf(field, after)]))

function valueOf({ kind, empty }: Field, text: string): string | number | boolean | null {
  if (text === '' && empty !== undefined) return null
  if (kind === 'number') return Number(text)
  return kind === 'flag' ? text === 'true' : text
}

/** A text of a field as a person reads it. */
export function wordsOf({ kind, empty }: Field, text: string): string {
  if (text === '') return empty ?? '–'
  if (kind === 'number') return count(Number(text))
  return kind === 'flag' ? (text === 'true' ? 'yes' : 'no') : text
}
