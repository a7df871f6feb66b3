import type { AuditRow } from '@cofferdam/client'
import type { Resource } from '../../api/use-resource.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { Panel } from '../../parts/panel.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'

/** The audit rows as they are stored, one for each attempt. */
export function AuditPanel({ rows }: { rows: Resource<readonly AuditRow[]> }) {
  return (
    <Panel title="Audit">
      <ResourceView of={rows} what="the audit rows" lines={2}>
        {(found) =>
          found.length === 0 ? (
            <p class="muted">A row is written when an attempt ends.</p>
          ) : (
            found.map((row) => {
              const text = JSON.stringify(row, null, 2)
              return (
                <details key={row.attempt} class="raw">
                  <summary>Attempt {row.attempt}, as stored</summary>
                  <CopyButton text={text} label="Copy the row as JSON">
                    Copy
                  </CopyButton>
                  <pre tabIndex={0}>{text}</pre>
                </details>
              )
            })
          )
        }
      </ResourceView>
    </Panel>
  )
}
