/**
 * What a worker tells the scheduler that it can run. Workers that offer the same are of one kind, and the
 * scheduler gives each kind only what it can serve (lua/include/kinds.lua).
 */
import { createHash } from 'node:crypto'
import { ISOLATIONS } from '@cofferdam/contract'
import type { Offer } from './needs.ts'

export interface WorkerKind {
  /** Begins with the strongest isolation that it offers, so that names sort by isolation. */
  name: string
  /** One line per backend: what it can do (`Offer`), joined by commas. */
  offers: string
}

/** The kind of workers without `offers`, which take every execution. */
export const ANY_KIND: WorkerKind = { name: '', offers: '*' }

/** The kind of a worker whose backends have these offers, in any order. */
export function kindOf(offers: readonly Offer[]): WorkerKind {
  const lines = offers.map((words) => [...words].toSorted().join(',')).toSorted()
  const strongest = ISOLATIONS.findLastIndex((level) =>
    offers.some((words) => words.has(`isolation=${level}`)),
  )
  const text = lines.join('\n')
  const digest = createHash('sha1').update(text).digest('hex').slice(0, 10)
  return { name: `${strongest + 1}-${digest}`, offers: text }
}

/**
 * Returns a reader of a worker's kind. `offersOf` must return the same array until the offers change.
 * Default: any kind.
 */
export function kindReader(offersOf: () => readonly Offer[] | undefined = () => undefined): () => WorkerKind {
  let known: { offers: readonly Offer[] | undefined; kind: WorkerKind } = {
    offers: undefined,
    kind: ANY_KIND,
  }
  return () => {
    const offers = offersOf()
    if (offers !== known.offers) known = { offers, kind: offers === undefined ? ANY_KIND : kindOf(offers) }
    return known.kind
  }
}
