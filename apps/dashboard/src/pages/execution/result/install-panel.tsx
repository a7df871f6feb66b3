import type { ExecutionResult } from '@cofferdam/client'
import { Panel } from '../../../parts/panel.tsx'
import { counted } from '../../../words/figures.ts'

/** The report of an install: first the packages that policy refused, then those that were fetched. */
export function InstallPanel({ result }: { result: ExecutionResult }) {
  const { install } = result
  if (install === undefined) return null
  return (
    <Panel title="Install" aside={<span class="muted">{install.manager}</span>}>
      {install.refused.length > 0 && (
        <>
          <h3 class="tone-bad">Refused by policy</h3>
          <ul class="lines">
            {install.refused.map(({ name, reason }) => (
              <li key={name}>
                <code>{name}</code> {reason}
              </li>
            ))}
          </ul>
        </>
      )}
      <details open={install.packages.length <= 20}>
        <summary>{counted(install.packages.length, 'package')} fetched</summary>
        <ul class="packages mono">
          {install.packages.map(({ name, version }, index) => (
            <li key={index}>
              {name} <span class="muted">{version}</span>
            </li>
          ))}
        </ul>
      </details>
      <p class="muted small">
        <code>{install.command}</code>
      </p>
    </Panel>
  )
}
