import type { Comparison, ExecutionState } from '@cofferdam/client'
import { read } from '../../../api/call.ts'
import { useResource } from '../../../api/use-resource.ts'
import { Panel } from '../../../parts/panel.tsx'
import { ResourceView } from '../../../parts/resource-view.tsx'
import { ToneDot } from '../../../parts/standing-dot.tsx'
import { JsonTree } from '../result/json-tree.tsx'
import { SideTable } from './side-table.tsx'
import { TextDiffView } from './text-diff-view.tsx'

type Difference = Comparison['differences'][number]

/** A rerun beside the execution that it runs again. Nothing for other executions. */
export function ComparePanel({ state }: { state: ExecutionState }) {
  if (state.rerun_of === undefined) return null
  if (state.status === 'ended') return <Compared id={state.execution_id} />
  return (
    <Panel title="Compared with the first run">
      <p class="muted">Both are compared when this one has ended.</p>
    </Panel>
  )
}

function Compared({ id }: { id: string }) {
  const comparison = useResource(id, (signal) =>
    read<Comparison>(`/v1/executions/${encodeURIComponent(id)}/compare`, { signal }),
  )
  return (
    <Panel title="Compared with the first run" class="compare">
      <ResourceView of={comparison} what="the comparison" lines={6}>
        {(found) => <Both found={found} />}
      </ResourceView>
    </Panel>
  )
}

function Both({ found }: { found: Comparison }) {
  const { first, second, differences, artifacts } = found
  return (
    <>
      {differences.length === 0 ? (
        <p>
          <ToneDot tone="ok">The results are alike.</ToneDot>
        </p>
      ) : (
        <p>
          <ToneDot tone="warn">The results differ in</ToneDot>{' '}
          {differences.map((name) => (
            <span key={name} class="badge">
              {wordsOf(name)}
            </span>
          ))}
        </p>
      )}
      <SideTable first={first} second={second} />
      {differences.includes('value') && (
        <div class="two-sides">
          <Value title="Value, first" value={first.value} />
          <Value title="Value, again" value={second.value} />
        </div>
      )}
      {artifacts.length > 0 && (
        <ul class="lines" aria-label="Artifacts that differ">
          {artifacts.map(({ path, change }) => (
            <li key={path}>
              <span class="muted">artifact {change}</span> <code>{path}</code>
            </li>
          ))}
        </ul>
      )}
      {(['stdout', 'stderr'] as const).map((stream) => (
        <TextDiffView
          key={stream}
          name={stream}
          diff={found[stream]}
          differs={differences.includes(stream)}
        />
      ))}
    </>
  )
}

/** The API's names, as people write them. */
const wordsOf = (name: Difference): string => name.replace('_', ' ')

function Value({ title, value }: { title: string; value: unknown }) {
  return (
    <div>
      <h3>{title}</h3>
      <div class="json mono">{value === undefined ? '–' : <JsonTree value={value} />}</div>
    </div>
  )
}
