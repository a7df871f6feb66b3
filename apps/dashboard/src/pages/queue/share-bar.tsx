import { percent } from '../../words/figures.ts'
import { isHeldBack } from './standing.ts'
import type { QueueTenant } from './queue.ts'

const WIDTH = 120
const HEIGHT = 10
/** Smallest width of the bar of a share that is not 0, and width of the mark for the due share. */
const LEAST = 2

/**
 * The share that a tenant got in the last minute as a bar, and its due share as a mark across it. `most` is
 * the largest of these shares among the shown rows and fills the width. With thousands of tenants, shares on
 * a scale up to 100 % would be invisible.
 */
export function ShareBar({ tenant, most }: { tenant: QueueTenant; most: number }) {
  const { share_1m: got, due_share: due } = tenant
  const place = (share: number): number => (most === 0 ? 0 : (share / most) * (WIDTH - LEAST))
  const isHeld = isHeldBack(tenant)
  return (
    <span class="share">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
        {got !== null && got > 0 && (
          <rect
            class={isHeld ? 'bar-held' : 'bar-run'}
            width={Math.max(place(got), LEAST)}
            y={2}
            height={HEIGHT - 4}
          />
        )}
        <rect class="bar-tick" x={place(due)} width={LEAST} height={HEIGHT} />
      </svg>
      <span class="number share-words">
        {got === null ? '?' : percent(got)} <span class="muted">of {percent(due)} due</span>
      </span>
      {isHeld && <span class="badge tone-warn">held back</span>}
    </span>
  )
}

/** The scale of the bars: the largest share among the rows, got or due. */
export const largestShare = (tenants: readonly QueueTenant[]): number =>
  tenants.reduce((most, { share_1m: got, due_share: due }) => Math.max(most, got ?? 0, due), 0)
