import type { ComponentChildren } from 'preact'
import type { Failure } from '../api/failure.ts'

/** A failed call: what happened, what to do (`hint` where the page knows better), and the trace. */
export function Problem(props: { failure: Failure; hint?: string | undefined; retry?: () => void }) {
  const { failure, hint = failure.hint, retry } = props
  return (
    <div class="problem" role="alert">
      <strong>{failure.message}</strong>
      {hint !== '' && <p>{hint}</p>}
      <p class="muted small">
        <code>{failure.code}</code>
        {failure.traceId !== null && (
          <>
            {' '}
            · trace <code>{failure.traceId}</code>
          </>
        )}
      </p>
      {retry !== undefined && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** What a list says when nothing is in it, and what would put something there. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children !== undefined && <p>{children}</p>}
    </div>
  )
}

/** Grey lines in the place of what loads, so that nothing jumps when it arrives. */
export function Loading({ lines = 6, what }: { lines?: number; what: string }) {
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading {what}</span>
      {Array.from({ length: lines }, (_, index) => (
        <span key={index} class="loading-line" aria-hidden="true" />
      ))}
    </div>
  )
}
