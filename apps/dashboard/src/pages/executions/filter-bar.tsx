import { useState } from 'preact/hooks'
import { go, withQuery } from '../../address/address.ts'
import { FILTERS, SPANS, type ListQuery } from './filters.ts'

const STATES = [
  ['all', 'All'],
  ['live', 'Live'],
  ['ended', 'Ended'],
] as const

/** Which executions are shown. Each change is a step in the history. */
export function FilterBar({ query, showsStates = true }: { query: ListQuery; showsStates?: boolean }) {
  const active = FILTERS.filter(({ name }) => query.filters[name] !== undefined)
  return (
    <div class="filter-bar">
      {showsStates && <States query={query} />}
      <select
        aria-label="Enqueued within"
        value={query.within ?? ''}
        onChange={(event) => go(withQuery({ within: event.currentTarget.value, cursor: null }))}
      >
        <option value="">Any time</option>
        {Object.entries(SPANS).map(([name, { words }]) => (
          <option key={name} value={name}>
            {words}
          </option>
        ))}
      </select>
      {active.map(({ name, words, values }) => {
        const value = query.filters[name] ?? ''
        const shown = values?.find(([one]) => one === value)?.[1] ?? value
        return (
          <span key={name} class="chip">
            <span class="muted">{words}</span>
            <span class="chip-value" title={value}>
              {shown}
            </span>
            <a
              href={withQuery({ [name]: null, cursor: null })}
              aria-label={`Remove the filter ${words} ${shown}`}
            >
              ✕
            </a>
          </span>
        )
      })}
      <AddFilter query={query} />
    </div>
  )
}

function States({ query }: { query: ListQuery }) {
  return (
    <nav class="segments" aria-label="State">
      {STATES.map(([value, words]) => (
        <a
          key={value}
          href={withQuery({ status: value === 'all' ? null : value, cursor: null })}
          aria-current={query.status === value ? 'true' : undefined}
        >
          {words}
        </a>
      ))}
    </nav>
  )
}

/** Lets the user choose a kind of filter, then its value from a list or as text. */
function AddFilter({ query }: { query: ListQuery }) {
  const [name, setName] = useState('')
  const kind = FILTERS.find((filter) => filter.name === name)
  const add = (value: string): void => {
    if (value.trim() === '') return
    setName('')
    go(withQuery({ [name]: value.trim(), cursor: null }))
  }
  return (
    <form
      class="add-filter"
      onSubmit={(event) => {
        event.preventDefault()
        const value = new FormData(event.currentTarget).get('value')
        if (typeof value === 'string') add(value)
      }}
    >
      <select aria-label="Add a filter" value={name} onChange={(event) => setName(event.currentTarget.value)}>
        <option value="">+ Filter</option>
        {FILTERS.filter((filter) => query.filters[filter.name] === undefined).map((filter) => (
          <option key={filter.name} value={filter.name}>
            {filter.words}
          </option>
        ))}
      </select>
      {kind?.values !== undefined && (
        <select aria-label={kind.words} onChange={(event) => add(event.currentTarget.value)}>
          <option value="">Choose</option>
          {kind.values.map(([value, words]) => (
            <option key={value} value={value}>
              {words}
            </option>
          ))}
        </select>
      )}
      {kind !== undefined && kind.values === undefined && (
        <>
          <input name="value" aria-label={kind.words} maxLength={256} spellcheck={false} autocomplete="off" />
          <button type="submit" class="button">
            Add
          </button>
        </>
      )}
    </form>
  )
}
