/** The endings of each step of a series, always in the same order, so that columns are easy to compare. */
import type { Stats } from '@cofferdam/client'
import { ENDINGS } from '../../words/endings.ts'

export interface Stack {
  /** The ending, `none` for attempts without one, or `rest` for groups that the API put together. */
  key: string
  words: string
  /** Attempts of each step. A step that was not counted has 0. */
  counts: readonly number[]
  total: number
}

const ORDER = Object.keys(ENDINGS)

const stack = (key: string, words: string, counts: readonly (number | null)[]): Stack => {
  const known = counts.map((count) => count ?? 0)
  return { key, words, counts: known, total: known.reduce((sum, count) => sum + count, 0) }
}

/** Successes first, then the endings in the order of docs/errors.md, then what the page does not know. */
export function stacksOf({ groups, rest }: Stats): Stack[] {
  const place = (key: string | null): number => {
    const found = key === null ? -1 : ORDER.indexOf(key)
    return found === -1 ? ORDER.length : found
  }
  const named = groups
    .toSorted((one, other) => place(one.key) - place(other.key))
    .map(({ key, count }) => stack(key ?? 'none', wordsOf(key), count))
  return [...named, ...(rest === null ? [] : [stack('rest', 'Others', rest.count)])]
}

function wordsOf(key: string | null): string {
  if (key === null) return 'Without an ending'
  const known = new Map(Object.entries(ENDINGS)).get(key)
  // A newer API may know other endings.
  return known?.words ?? key.slice(0, 40)
}

/** The most attempts of one step, at least 1. */
export const mostOf = (stacks: readonly Stack[]): number => Math.max(1, ...sumsOf(stacks))

/** All attempts of each step. */
export function sumsOf(stacks: readonly Stack[]): number[] {
  const steps = stacks[0]?.counts.length ?? 0
  return Array.from({ length: steps }, (_, step) =>
    stacks.reduce((sum, { counts }) => sum + (counts[step] ?? 0), 0),
  )
}

/** The last figure that is known. Null if none is. */
export const lastKnown = (figures: readonly (number | null)[]): number | null =>
  figures.findLast((figure) => figure !== null) ?? null

/** All figures together. Those that were not counted are left out. */
export const sumOf = (figures: readonly (number | null)[]): number =>
  figures.reduce<number>((sum, figure) => sum + (figure ?? 0), 0)
