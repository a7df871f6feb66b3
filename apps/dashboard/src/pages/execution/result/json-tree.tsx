import type { ComponentChildren } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import { plainText } from '../../../words/plain.ts'

/** Levels that are open at first. */
const OPEN_DEPTH = 3
/** Entries of one level that are shown at first. */
const SHOWN = 100
/**
 * Entries below the first level that are shown at first, in total. The value comes from a program and may be
 * huge.
 */
const OPEN_AT_FIRST = 500
/** Characters of a text that are shown. */
const MOST_TEXT = 2000

/** A JSON value as a tree that opens and closes. What is closed is not in the page, however deep it is. */
export function JsonTree({ value }: { value: unknown }) {
  const budget = useMemo(() => ({ left: OPEN_AT_FIRST }), [value])
  return <JsonPart value={value} depth={0} budget={budget} />
}

interface PartProps {
  value: unknown
  name?: string
  depth: number
  budget: { left: number }
}

function JsonPart({ value, name, depth, budget }: PartProps) {
  const label = name === undefined ? null : <span class="json-name">{plainText(name)}: </span>
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
    <JsonNode
      entries={entries}
      depth={depth}
      budget={budget}
      summary={
        <>
          {label}
          {before}
          <span class="muted"> {entries.length} </span>
          {after}
        </>
      }
    />
  )
}

interface NodeProps {
  entries: readonly [string, unknown][]
  summary: ComponentChildren
  depth: number
  budget: { left: number }
}

function JsonNode({ entries, summary, depth, budget }: NodeProps) {
  const [isOpen, setOpen] = useState(
    () => depth === 0 || (depth < OPEN_DEPTH && (budget.left -= Math.min(entries.length, SHOWN)) >= 0),
  )
  return (
    <details class="json-node" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{summary}</summary>
      {isOpen && <Entries entries={entries} depth={depth} budget={budget} />}
    </details>
  )
}

function Entries({ entries, depth, budget }: Omit<NodeProps, 'summary'>) {
  const [most, setMost] = useState(SHOWN)
  return (
    <div class="json-entries">
      {entries.slice(0, most).map(([name, value]) => (
        <JsonPart key={name} name={name} value={value} depth={depth + 1} budget={budget} />
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
  const text = plainText(JSON.stringify(value) ?? 'undefined')
  const kind = value === null ? 'null' : typeof value
  const shown = text.length > MOST_TEXT ? `${text.slice(0, MOST_TEXT)}…` : text
  return <span class={`json-${kind}`}>{shown}</span>
}
