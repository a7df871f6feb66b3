import { useMemo } from 'preact/hooks'
import type { Look } from './ansi.ts'
import type { Block, Line } from './line-buffer.ts'

/** Classes instead of styles: the page’s policy allows no inline style. */
function classOf({ colour, ground, bold, underline }: Look): string {
  const parts = [
    colour !== null && `ansi-${colour}`,
    ground !== null && `ansi-on-${ground}`,
    bold && 'ansi-bold',
    underline && 'ansi-underline',
  ]
  return parts.filter((part) => part !== false).join(' ')
}

function OutputLine({ line }: { line: Line }) {
  return (
    <div class={line.stream === 'stderr' ? 'line line-stderr' : 'line'}>
      {line.pieces.map(({ text, look }, index) => (
        <span key={index} class={classOf(look)}>
          {text}
        </span>
      ))}
      {line.isCut && <span class="line-cut"> … the rest of the line is left out</span>}
      {'\n'}
    </div>
  )
}

/**
 * One block of lines. It is drawn again only if it changed: Preact skips nodes that are the same as before.
 */
export function OutputBlock({ block }: { block: Block }) {
  return useMemo(
    () => (
      <>
        {block.lines.map((line, index) => (
          <OutputLine key={index} line={line} />
        ))}
      </>
    ),
    [block],
  )
}
