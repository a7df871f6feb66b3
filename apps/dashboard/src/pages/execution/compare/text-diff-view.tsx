import type { Comparison } from '@cofferdam/client'
import { counted } from '../../../words/figures.ts'
import { plainLine } from '../output/ansi.ts'

type Diff = Comparison['stdout']
type DiffLine = Diff['lines'][number]

/**
 * The changed lines of one stream. `differs` is also true if the streams differ only in a part that the
 * results leave out.
 */
export function TextDiffView(props: { name: string; diff: Diff; differs: boolean }) {
  const { name, diff, differs } = props
  if (!differs) return null
  if (diff.same)
    return (
      <p class="muted small">
        {name}: what the results show is equal, but the whole streams have different lengths.
      </p>
    )
  return (
    <div class="diff">
      <h3>
        {name}{' '}
        <span class="muted">
          {counted(diff.removed, 'line')} only before, {counted(diff.added, 'line')} only now
        </span>
      </h3>
      {!diff.exact && (
        <p class="muted small">
          The texts are too different to find every common line, so the counts are too high.
        </p>
      )}
      <pre class="diff-lines" tabIndex={0} role="region" aria-label={`Changed lines of ${name}`}>
        {diff.lines.map((line, index) => (
          <Line key={index} line={line} />
        ))}
      </pre>
    </div>
  )
}

/** A line without the colours of the program, because colours show here what was added and removed. */
function Line({ line: { kind, text } }: { line: DiffLine }) {
  const shown = plainLine(text)
  if (kind === 'added') return <ins class="diff-line">{`+ ${shown}\n`}</ins>
  if (kind === 'removed') return <del class="diff-line">{`- ${shown}\n`}</del>
  return <span class={`diff-line diff-${kind}`}>{`${kind === 'skipped' ? '@' : ' '} ${shown}\n`}</span>
}
