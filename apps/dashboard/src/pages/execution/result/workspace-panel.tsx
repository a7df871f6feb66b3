import type { ExecutionResult } from '@cofferdam/client'
import { Panel } from '../../../parts/panel.tsx'
import { counted } from '../../../words/figures.ts'

/** What happened to changed workspace files. Files that were not merged come first. */
export function WorkspacePanel({ result }: { result: ExecutionResult }) {
  const { workspace } = result
  if (workspace === undefined) return null
  return (
    <Panel
      title="Workspace"
      aside={
        <span class="muted">
          {workspace.name}, version {workspace.version}, {workspace.status}
        </span>
      }
    >
      {workspace.reason !== undefined && <p class="tone-bad">{workspace.reason}</p>}
      <ul class="lines">
        {workspace.refused.map(({ path, reason }) => (
          <li key={path}>
            <span class="tone-bad">refused</span> <code>{path}</code> {reason}
          </li>
        ))}
        {workspace.conflicted.map(({ path, kept_as: keptAs }) => (
          <li key={path}>
            <span class="tone-warn">changed on both sides</span> <code>{path}</code>
            {keptAs !== null && (
              <>
                {' '}
                kept as <code>{keptAs}</code>
              </>
            )}
          </li>
        ))}
        {workspace.applied.map(({ path, change }) => (
          <li key={path}>
            <span class="muted">{change}</span> <code>{path}</code>
          </li>
        ))}
      </ul>
      {workspace.omitted > 0 && <p class="muted">{counted(workspace.omitted, 'more path')} left out.</p>}
      {workspace.status === 'unchanged' && <p class="muted">No file changed.</p>}
    </Panel>
  )
}
