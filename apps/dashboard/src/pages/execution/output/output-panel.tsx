import type { ExecutionResult, ExecutionState } from '@cofferdam/client'
import { useMemo, useState } from 'preact/hooks'
import { Empty } from '../../../parts/problem.tsx'
import { Panel } from '../../../parts/panel.tsx'
import { Segments } from '../../../parts/segments.tsx'
import { count, size } from '../../../words/figures.ts'
import { type Stream, createLineBuffer, type Block } from './line-buffer.ts'
import { OutputScreen } from './output-screen.tsx'
import type { SeenEvents } from './use-events.ts'

const STREAMS = ['stdout', 'stderr'] as const

/**
 * Shows the output. If the page watched the execution run, both streams are shown as they came in. Otherwise
 * one stream of the result is shown.
 */
export function OutputPanel({ state, seen }: { state: ExecutionState; seen: SeenEvents }) {
  const { result } = state
  const [view, setView] = useState<'both' | Stream>('both')
  const isWatched = seen.blocks.length > 0
  const shown = view === 'both' && !isWatched && result !== null ? tellingStream(result) : view
  const kept = useMemo(
    () => (result === null || shown === 'both' ? [] : keptBlocks(result, shown)),
    [result, shown],
  )
  const blocks = shown === 'both' ? seen.blocks : kept
  const choices = [...(isWatched ? (['both'] as const) : []), ...(result === null ? [] : STREAMS)]
  return (
    <Panel
      title="Output"
      class="flush"
      aside={
        <>
          {choices.length > 1 && (
            <Segments
              label="Stream"
              options={choices}
              chosen={shown}
              words={(choice) =>
                choice === 'both' || result === null
                  ? 'As it came'
                  : `${choice} ${size(result[`${choice}_bytes`])}`
              }
              onChoose={setView}
            />
          )}
          {result !== null && shown !== 'both' && (
            <a href={`/v1/executions/${state.execution_id}/output/${shown}`} download={`${shown}.txt`}>
              Download all
            </a>
          )}
        </>
      }
    >
      {seen.state === 'lost' && <p class="stale">The live output broke off. It continues by itself.</p>}
      {blocks.length === 0 ? (
        <Empty title={result === null ? 'No output yet.' : `Nothing on ${shown}.`} />
      ) : (
        <OutputScreen blocks={blocks} follows={result === null} />
      )}
      <OutputNotes state={state} stream={shown} seen={seen} />
    </Panel>
  )
}

/** The stream to show first: stderr if the program failed and wrote to it, else stdout. */
const tellingStream = (result: ExecutionResult): Stream =>
  !result.ok && result.stderr !== '' ? 'stderr' : 'stdout'

function OutputNotes(props: { state: ExecutionState; stream: 'both' | Stream; seen: SeenEvents }) {
  const { result } = props.state
  const { stream, seen } = props
  const isCut = result !== null && stream !== 'both' && result[`${stream}_truncated`]
  const part = stream === 'stderr' ? 'end' : 'beginning'
  const notes = [
    isCut && `Only the ${part} is shown: the program wrote ${size(result[`${stream}_bytes`])}.`,
    stream === 'both' &&
      seen.count > seen.kept &&
      `The last ${count(seen.kept)} of ${count(seen.count)} lines are shown.`,
  ].filter((note) => note !== false)
  return notes.length === 0 ? null : <p class="output-notes">{notes.join(' ')}</p>
}

/** The output of an ended execution, as its result has it: at most a few hundred KiB. */
function keptBlocks(result: ExecutionResult, stream: Stream): readonly Block[] {
  const buffer = createLineBuffer()
  buffer.add(stream, result[stream])
  return buffer.blocks()
}
