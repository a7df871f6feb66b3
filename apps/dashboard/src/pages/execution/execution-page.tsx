import type { ExecutionState } from '@cofferdam/client'
import { useState } from 'preact/hooks'
import { pageAddress } from '../../address/address.ts'
import { PageHead } from '../../parts/page-head.tsx'
import { Loading, Problem } from '../../parts/problem.tsx'
import { ArtifactPanel } from './artifacts/artifact-panel.tsx'
import { AuditPanel } from './audit-panel.tsx'
import { ComparePanel } from './compare/compare-panel.tsx'
import { ExecutionFacts } from './execution-facts.tsx'
import { ExecutionHead } from './execution-head.tsx'
import { OutputPanel } from './output/output-panel.tsx'
import { useEvents } from './output/use-events.ts'
import { InstallPanel } from './result/install-panel.tsx'
import { TestsPanel } from './result/tests-panel.tsx'
import { ValuePanel } from './result/value-panel.tsx'
import { WorkspacePanel } from './result/workspace-panel.tsx'
import { TimelinePanel } from './timeline/timeline-panel.tsx'
import { UsagePanel } from './usage-panel.tsx'
import { useAuditRows, useExecution } from './use-execution.ts'
import { WhyPanel } from './why-panel.tsx'

/** One execution: what became of it, why, and everything that it left. */
export function ExecutionPage({ id }: { id: string }) {
  const [isEnded, setEnded] = useState(false)
  const state = useExecution(id, isEnded)
  if (state.data !== null && (state.data.status === 'ended') !== isEnded) setEnded(!isEnded)
  return (
    <>
      <nav class="crumbs" aria-label="Path">
        <a href={pageAddress('/executions')}>Executions</a> <span aria-hidden="true">/</span>
      </nav>
      {state.data === null ? (
        <>
          <PageHead title={`…${id.slice(-8)}`} />
          {state.failure === null ? (
            <Loading what="the execution" lines={10} />
          ) : (
            <Problem failure={state.failure} retry={state.reload} />
          )}
        </>
      ) : (
        <>
          {state.failure !== null && (
            <p class="stale" role="status">
              Not up to date: {state.failure.message}
            </p>
          )}
          <Execution state={state.data} reload={state.reload} />
        </>
      )}
    </>
  )
}

function Execution({ state, reload }: { state: ExecutionState; reload: () => void }) {
  const seen = useEvents(state.execution_id, state.status !== 'ended', reload)
  const rows = useAuditRows(state)
  const { result } = state
  return (
    <>
      <ExecutionHead state={state} reload={reload} />
      <div class="execution">
        <div class="execution-main">
          <WhyPanel state={state} notices={seen.notices} />
          <ComparePanel state={state} />
          <TimelinePanel state={state} />
          <OutputPanel state={state} seen={seen} />
          {result !== null && (
            <>
              <ValuePanel result={result} />
              <TestsPanel result={result} />
              <InstallPanel result={result} />
              <WorkspacePanel result={result} />
              <ArtifactPanel result={result} />
            </>
          )}
          <AuditPanel rows={rows} />
        </div>
        <div class="execution-side">
          <ExecutionFacts state={state} rows={rows.data ?? []} />
          {result !== null && <UsagePanel result={result} row={rows.data?.[0] ?? null} />}
        </div>
      </div>
    </>
  )
}
