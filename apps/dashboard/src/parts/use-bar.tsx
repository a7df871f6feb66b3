import type { ComponentChildren } from 'preact'
import { count, percent } from '../words/figures.ts'

/** From this share of the limit on, the use is marked as near it. */
const NEAR = 0.9

/**
 * What was used of a limit: figures, share and a bar, with `children` below. `write` puts a figure in words.
 */
export function UseBar(props: {
  words: string
  used: number
  limit: number
  write?: (figure: number) => string
  children?: ComponentChildren
}) {
  const { words, used, limit, write = count } = props
  const most = Math.max(limit, 1)
  const isNear = used / most >= NEAR
  return (
    <li>
      <span>{words}</span>
      <span class="number">
        {write(used)} of {write(limit)}
      </span>
      {isNear ? (
        <strong class="used-share number tone-warn" title="at or near the limit">
          ▲ {percent(used / most)}
        </strong>
      ) : (
        <span class="used-share number muted">{percent(used / most)}</span>
      )}
      <meter aria-label={words} min={0} max={most} high={most * NEAR} value={Math.min(used, limit)} />
      {props.children}
    </li>
  )
}
