import type { ComponentChildren } from 'preact'
import type { Resource } from '../api/use-resource.ts'
import { Loading, Problem } from './problem.tsx'

/**
 * Shows what was loaded, grey lines before, and the failure if there is nothing to show. Once something was
 * shown it stays: a later failure stands above it.
 */
export function ResourceView<T>(props: {
  of: Resource<T>
  what: string
  lines?: number
  children: (data: T) => ComponentChildren
}) {
  const { data, failure, reload } = props.of
  if (data === null)
    return failure === null ? (
      <Loading what={props.what} lines={props.lines ?? 6} />
    ) : (
      <Problem failure={failure} retry={reload} />
    )
  return (
    <>
      {failure !== null && (
        <p class="stale" role="status">
          Not up to date: {failure.message}
        </p>
      )}
      {props.children(data)}
    </>
  )
}
