import type { ExecutionResult } from '@cofferdam/client'
import { CopyButton } from '../../../parts/copy-button.tsx'
import { Panel } from '../../../parts/panel.tsx'
import { JsonTree } from './json-tree.tsx'

/** The value of the script. Nothing if it has none. */
export function ValuePanel({ result }: { result: ExecutionResult }) {
  const { value } = result
  if (value === undefined) return null
  return (
    <Panel
      title="Value"
      aside={
        <CopyButton text={JSON.stringify(value, null, 2)} label="Copy the value as JSON">
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
