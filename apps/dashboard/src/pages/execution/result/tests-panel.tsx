import type { ExecutionResult } from '@cofferdam/client'
import { Panel } from '../../../parts/panel.tsx'
import { counted, duration } from '../../../words/figures.ts'
import { withoutEscapes } from '../output/ansi.ts'

/** The report of a test run: the counts, then each failure with its place. */
export function TestsPanel({ result }: { result: ExecutionResult }) {
  const { tests } = result
  if (tests === undefined) return null
  const counts = [
    ['passed', tests.passed, 'tone-ok'],
    ['failed', tests.failed, 'tone-bad'],
    ['errored', tests.errored, 'tone-bad'],
    ['skipped', tests.skipped, 'tone-wait'],
  ] as const
  return (
    <Panel
      title="Tests"
      aside={
        <span class="muted">
          {tests.framework}
          {tests.duration_ms !== null && `, ${duration(tests.duration_ms)}`}
        </span>
      }
    >
      <p class="counts">
        {counted(tests.total, 'test')}:{' '}
        {counts
          .filter(([, figure]) => figure > 0)
          .map(([word, figure, tone]) => (
            <span key={word} class={tone}>
              {figure} {word}
            </span>
          ))}
      </p>
      {!tests.complete && <p class="stale">The report is not complete: the run was stopped early.</p>}
      <ul class="failures">
        {tests.failures.map((failure, index) => (
          <li key={index}>
            <details open={index < 5}>
              <summary>
                <strong>{withoutEscapes(failure.name)}</strong>{' '}
                {failure.file !== null && (
                  <code class="muted">
                    {failure.file}
                    {failure.line !== null && `:${failure.line}`}
                  </code>
                )}
              </summary>
              <pre tabIndex={0}>{withoutEscapes(failure.message, 20_000)}</pre>
            </details>
          </li>
        ))}
      </ul>
      {tests.failures_omitted > 0 && (
        <p class="muted">{counted(tests.failures_omitted, 'more failure')} left out of the report.</p>
      )}
      <p class="muted small">
        <code>{tests.command}</code>
      </p>
    </Panel>
  )
}
