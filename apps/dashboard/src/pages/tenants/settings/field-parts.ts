/** How to read and write fields whose value is not one property of the API’s object. */
import type { Field, Settings } from './fields.ts'

type Place = Required<Pick<Field, 'read' | 'write'>>

/** The property `part` of the property `name`. Writing it leaves the other parts as they are now. */
export const partOf = (name: string, part: string): Place => ({
  read: (of) => of[name][part],
  write: (value, now) => ({ [name]: { ...now[name], [part]: value } }),
})

/** A map, with a line for each name and its value. */
export const mapOf = (
  name: string,
  valueOf: (text: string) => string | number,
  inner: Place = { read: (of) => of[name], write: (value) => ({ [name]: value }) },
): Place => ({
  read: (of) => Object.entries(inner.read(of) as Settings).map(([key, value]) => `${key} ${value}`),
  write: (lines, now) => {
    const pairs = (lines as string[]).map((line) => line.split(/\s+/) as [string, string])
    return inner.write(Object.fromEntries(pairs.map(([key, value]) => [key, valueOf(value)])), now)
  },
})
