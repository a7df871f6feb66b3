import { withQuery } from '../address/address.ts'

/**
 * Links to the newest and to the next older page of a list. `cursor` is the page that is shown, null for the
 * newest.
 */
export function OlderAndNewest({ cursor, next }: { cursor: string | null; next: string | null }) {
  if (cursor === null && next === null) return null
  return (
    <nav class="pager" aria-label="Pages of the list">
      {cursor !== null && (
        <a class="button" href={withQuery({ cursor: null })}>
          Newest
        </a>
      )}
      {next !== null && (
        <a class="button" href={withQuery({ cursor: next })}>
          Older →
        </a>
      )}
    </nav>
  )
}
