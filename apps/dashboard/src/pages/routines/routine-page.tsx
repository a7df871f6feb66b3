import type { Operations, Routine, RoutineRun } from '@cofferdam/client'
import { pageAddress } from '../../address/address.ts'
import { read } from '../../api/call.ts'
import { mayChange } from '../../api/session.ts'
import { useResource } from '../../api/use-resource.ts'
import { ExecutionLink } from '../../parts/execution-link.tsx'
import { PageHead } from '../../parts/page-head.tsx'
import { Facts, Panel } from '../../parts/panel.tsx'
import { Empty } from '../../parts/problem.tsx'
import { ResourceView } from '../../parts/resource-view.tsx'
import { ToneDot } from '../../parts/standing-dot.tsx'
import { When } from '../../parts/when.tsx'
import { JsonTree } from '../execution/result/json-tree.tsx'
import { EnabledDot } from './enabled-dot.tsx'
import { RoutineActions } from './routine-actions.tsx'
import { scheduleWords } from './schedule-words.ts'

const EVERY_MS = 5000
const TONES = { enqueued: 'ok', skipped: 'warn', refused: 'bad' } as const
const HEADS = ['Outcome', 'Execution', 'Due', 'Reason', 'Looked at']

/** One routine: when it runs, what became of its runs, and what it runs. */
export function RoutinePage({ id }: { id: string }) {
  const path = `/v1/routines/${encodeURIComponent(id)}`
  const found = useResource(
    id,
    async (signal) => {
      const [routine, { runs }] = await Promise.all([
        read<Routine>(path, { signal }),
        read<Operations['listRoutineRuns']['result']>(`${path}/runs`, { signal }),
      ])
      return { routine, runs }
    },
    EVERY_MS,
  )
  return (
    <>
      <nav class="crumbs" aria-label="Path">
        <a href={pageAddress('/routines')}>Routines</a> <span aria-hidden="true">/</span>
      </nav>
      <PageHead title={found.data?.routine.name ?? id}>
        {found.data !== null && mayChange.value && (
          <RoutineActions path={path} enabled={found.data.routine.enabled} onDone={found.reload} />
        )}
      </PageHead>
      <ResourceView of={found} what="the routine" lines={8}>
        {({ routine, runs }) => (
          <div class="execution">
            <div class="execution-main">
              <RunPanel runs={runs} />
              <Panel title="Request">
                <div class="json mono">
                  <JsonTree value={routine.request} />
                </div>
              </Panel>
            </div>
            <div class="execution-side">
              <RoutineFacts routine={routine} />
            </div>
          </div>
        )}
      </ResourceView>
    </>
  )
}

function RoutineFacts({ routine }: { routine: Routine }) {
  const { agent_id: agentId } = routine
  return (
    <Panel title="Details">
      <Facts
        of={[
          ['State', <EnabledDot enabled={routine.enabled} />],
          ['Schedule', scheduleWords(routine.schedule)],
          ['Next run', <When at={routine.next_run_at} />],
          ['If one still runs', routine.concurrency],
          ['Tenant', routine.tenant_id],
          ['Agent', <a href={pageAddress('/executions', { agent_id: agentId })}>{agentId}</a>],
          ['Template', routine.template_id],
          ['Callback', routine.callback_url],
          ['Created', <When at={routine.created_at} />],
          ['Changed', <When at={routine.updated_at} />],
          ['Routine', <span class="mono">{routine.routine_id}</span>],
        ]}
      />
    </Panel>
  )
}

function RunPanel({ runs }: { runs: readonly RoutineRun[] }) {
  return (
    <Panel title="Runs" class="flush">
      {runs.length === 0 ? (
        <Empty title="It has not run yet." />
      ) : (
        <table class="rows cards">
          <thead>
            <tr>
              {HEADS.map((head) => (
                <th key={head}>{head}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {runs.map((run, index) => (
              <tr key={`${run.fired_at} ${index}`}>
                <td>
                  <ToneDot tone={TONES[run.outcome]}>{run.outcome}</ToneDot>
                </td>
                <td>{run.execution_id !== null && <ExecutionLink id={run.execution_id} isRow />}</td>
                <td>{run.scheduled_at === null ? 'on demand' : <When at={run.scheduled_at} />}</td>
                <td>{run.reason}</td>
                <td>
                  <When at={run.fired_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}
