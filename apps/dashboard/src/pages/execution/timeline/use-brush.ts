import type { TargetedPointerEvent } from 'preact'
import { useState } from 'preact/hooks'

/** A part of the time, in milliseconds since 1970. */
export interface Range {
  fromMs: number
  toMs: number
}

/** A drag over a smaller share of the bar than this counts as a click. */
const LEAST_SHARE = 0.01

/** A drag over the bars of a table chooses a part of `view`. `drawn` is the part while it is being chosen. */
export function useBrush(view: Range, onChoose: (range: Range) => void) {
  const [ends, setEnds] = useState<{ firstMs: number; lastMs: number } | null>(null)
  const allMs = view.toMs - view.fromMs
  const timeAt = ({ clientX }: PointerEvent, cell: Element): number => {
    const { left, width } = cell.getBoundingClientRect()
    return view.fromMs + Math.min(Math.max((clientX - left) / width, 0), 1) * allMs
  }
  const cellOf = ({ target }: PointerEvent): Element | null =>
    target instanceof Element ? target.closest('.timeline-bar') : null
  const drawn = ends && {
    fromMs: Math.min(ends.firstMs, ends.lastMs),
    toMs: Math.max(ends.firstMs, ends.lastMs),
  }
  return {
    drawn,
    listeners: {
      onPointerDown(event: TargetedPointerEvent<Element>) {
        const cell = cellOf(event)
        if (cell === null || event.button !== 0) return
        cell.setPointerCapture(event.pointerId)
        const atMs = timeAt(event, cell)
        setEnds({ firstMs: atMs, lastMs: atMs })
      },
      onPointerMove(event: TargetedPointerEvent<Element>) {
        const cell = cellOf(event)
        if (cell !== null && ends !== null) setEnds({ ...ends, lastMs: timeAt(event, cell) })
      },
      onPointerUp() {
        setEnds(null)
        if (drawn !== null && drawn.toMs - drawn.fromMs > allMs * LEAST_SHARE) onChoose(drawn)
      },
      onPointerCancel: () => setEnds(null),
    },
  }
}
