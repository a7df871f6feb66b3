import type { ExecutionResult } from '@cofferdam/client'
import { CopyButton } from '../../../parts/copy-button.tsx'
import { Panel } from '../../../parts/panel.tsx'
import { JsonTree } from './json-tree.tsx'

/**
 * Values with more brackets than this are copied without indentation. If they are nested, it could take a
 * hundred megabytes.
 */
const MOST_INDENTED = 1000

/** The JSON of a value of at most 32 KiB, indented for people. */
function jsonText(value: unknown): string {
  const text = JSON.stringify(value)
  const brackets = text.match(/[[{]/g)?.length ?? 0
  return brackets > MOST_INDENTED ? text : JSON.stringify(value, null, 2)
}

/** The value of the script. Nothing if it has none. */
export function ValuePanel({ result }: { result: ExecutionResult }) {
  const { value } = result
  if (value === undefined) return null
  return (
    <Panel
      title="Value"
      aside={
        <CopyButton text={() => jsonText(value)} label="Copy the value as JSON">
          Copy
        </CopyButton>
      }
    >
      <div class="json mono">
        <JsonTree value={value} />
      </div>
    </Panel>
  )
}
