import { useState } from 'preact/hooks'

/** Levels that are open at first. */
const OPEN_DEPTH = 3
/** Entries of one level that are shown at first. */
const SHOWN = 100
/** Of a longer text the rest is left out. */
const MOST_TEXT = 2000

/** A JSON value as a tree that opens and closes. */
export function JsonTree(props: { value: unknown; name?: string; depth?: number }) {
  const { value, name, depth = 0 } = props
  const label = name === undefined ? null : <span class="json-name">{name}: </span>
  if (value === null || typeof value !== 'object')
    return (
      <div class="json-leaf">
        {label}
        <Scalar value={value} />
      </div>
    )
  const entries = Object.entries(value)
  const [before, after] = Array.isArray(value) ? ['[', ']'] : ['{', '}']
  if (entries.length === 0)
    return (
      <div class="json-leaf">
        {label}
        {before}
        {after}
      </div>
    )
  return (
    <details class="json-node" open={depth < OPEN_DEPTH}>
      <summary>
        {label}
        {before}
        <span class="muted"> {entries.length} </span>
        {after}
      </summary>
      <Entries entries={entries} depth={depth} />
    </details>
  )
}

function Entries({ entries, depth }: { entries: readonly [string, unknown][]; depth: number }) {
  const [most, setMost] = useState(SHOWN)
  return (
    <div class="json-entries">
      {entries.slice(0, most).map(([name, value]) => (
        <JsonTree key={name} name={name} value={value} depth={depth + 1} />
      ))}
      {entries.length > most && (
        <button type="button" class="button" onClick={() => setMost(most + 10 * SHOWN)}>
          {entries.length - most} more
        </button>
      )}
    </div>
  )
}

function Scalar({ value }: { value: unknown }) {
  const text = JSON.stringify(value) ?? 'undefined'
  const kind = value === null ? 'null' : typeof value
  const shown = text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text
  return <span class={`json-${kind}`}>{shown}</span>
}
