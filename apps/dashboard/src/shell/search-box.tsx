import { go, pageAddress } from '../address/address.ts'
import { searchTarget } from './search-target.ts'

/** Finds an execution by what one has: an ID, a trace, a program’s hash, a host, an agent. */
export function SearchBox() {
  const search = (event: SubmitEvent): void => {
    event.preventDefault()
    if (!(event.currentTarget instanceof HTMLFormElement)) return
    const field = event.currentTarget.elements.namedItem('find')
    if (!(field instanceof HTMLInputElement)) return
    const target = searchTarget(field.value)
    if (target === null) return
    field.value = ''
    field.blur()
    go(pageAddress(target.path, target.query))
  }
  return (
    <form class="search-box" role="search" onSubmit={search}>
      <input
        name="find"
        id="find"
        type="search"
        aria-label="Find executions"
        placeholder="ID, trace, hash, host or agent"
        autocomplete="off"
        spellcheck={false}
        maxLength={256}
      />
      <kbd aria-hidden="true">/</kbd>
    </form>
  )
}
