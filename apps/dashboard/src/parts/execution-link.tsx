import { pageAddress } from '../address/address.ts'

/** The last digits of an execution’s ID, which lead to its page. The keys j and k go from link to link. */
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
