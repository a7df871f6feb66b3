import { pageAddress } from '../address/address.ts'

/**
 * The last 8 digits of an execution’s ID, as a link to its page. With `isRow`, the keys j and k stop at it.
 */
export const ExecutionLink = ({ id, isRow = false }: { id: string; isRow?: boolean }) => (
  <a
    class="mono"
    href={pageAddress(`/executions/${encodeURIComponent(id)}`)}
    title={id}
    {...(isRow ? { 'data-row-link': true } : {})}
  >
    …{id.slice(-8)}
  </a>
)
