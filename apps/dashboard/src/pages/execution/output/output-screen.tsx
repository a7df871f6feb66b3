import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import type { Block } from './line-buffer.ts'
import { OutputBlock } from './output-lines.tsx'

/** The screen counts as scrolled to the end if it is at most this many pixels away from it. */
const NEAR = 24

/** Shows the lines. With `follows`, the screen stays at the end until a person scrolls up. */
export function OutputScreen({ blocks, follows }: { blocks: readonly Block[]; follows: boolean }) {
  const screen = useRef<HTMLDivElement>(null)
  const lastTop = useRef(0)
  const [isHeld, setHeld] = useState(false)
  useLayoutEffect(() => {
    const shown = screen.current
    if (shown === null || !follows || isHeld) return
    shown.scrollTop = shown.scrollHeight
    lastTop.current = shown.scrollTop
  })
  // Our code only scrolls down, so a scroll up comes from a person.
  const scrolled = (): void => {
    const shown = screen.current
    if (shown === null || !follows) return
    const isUp = shown.scrollTop < lastTop.current
    const isAtEnd = shown.scrollHeight - shown.scrollTop - shown.clientHeight <= NEAR
    lastTop.current = shown.scrollTop
    if (isAtEnd) setHeld(false)
    else if (isUp) setHeld(true)
  }
  return (
    <div class="screen-frame">
      <div
        ref={screen}
        class="screen"
        tabIndex={0}
        role="log"
        aria-live="off"
        aria-label="Output of the program"
        onScroll={scrolled}
      >
        {blocks.map((block) => (
          <OutputBlock key={block.id} block={block} />
        ))}
      </div>
      {follows && isHeld && (
        <button type="button" class="button primary follow" onClick={() => setHeld(false)}>
          ↓ Follow
        </button>
      )}
    </div>
  )
}
