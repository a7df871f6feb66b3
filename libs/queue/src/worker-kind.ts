/**
 * What a worker tells the scheduler that it can run. Workers that offer the same are of one kind; the
 * scheduler gives each kind only what it can serve (lua/include/kinds.lua).
 */
import { createHash } from 'node:crypto'
import { ISOLATIONS } from '@cofferdam/contract'
import type { Offer } from './needs.ts'

export interface WorkerKind {
  /** Begins with the strongest isolation that it offers, so that names sort by it. */
  name: string
  /** One line per backend: its words, joined by commas. */
  offers: string
}

/** Of workers that say nothing: whatever is asked for, they take it. */
export const ANY_KIND: WorkerKind = { name: '', offers: '*' }

/** The kind of a worker whose backends offer this; the same whatever their order is. */
export function kindOf(offers: readonly Offer[]): WorkerKind {
  const lines = offers.map((words) => [...words].toSorted().join(',')).toSorted()
  const strongest = ISOLATIONS.findLastIndex((level) =>
    offers.some((words) => words.has(`isolation=${level}`)),
  )
  const text = lines.join('\n')
  const digest = createHash('sha1').update(text).digest('hex').slice(0, 10)
  return { name: `${strongest + 1}-${digest}`, offers: text }
}
