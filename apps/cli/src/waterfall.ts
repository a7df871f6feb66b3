/** Draws the spans of an execution as bars over time. */
import type { TraceSpan } from '@cofferdam/contract'
import { durationWords } from './show-result.ts'

/** Width of the bars. With names and times a line has 100 columns. */
const WIDTH = 36
const NAME_WIDTH = 34

/** One line per span: indented name, bar, duration, facts. Each span must come before its children. */
export function waterfallLines(spans: readonly TraceSpan[]): string[] {
  const beginMs = Math.min(...spans.map((span) => span.start_ms))
  const endMs = Math.max(...spans.map((span) => span.start_ms + span.duration_ms))
  const scale = WIDTH / Math.max(endMs - beginMs, 0.001)
  const depths = new Map<string, number>()
  return spans.map((span) => {
    const depth = span.parent_span_id === null ? 0 : (depths.get(span.parent_span_id) ?? -1) + 1
    depths.set(span.span_id, depth)
    const name = `${'  '.repeat(depth)}${span.name}`.slice(0, NAME_WIDTH).padEnd(NAME_WIDTH)
    const time = durationOf(span.duration_ms).padStart(9)
    return `${name} ${bar(span.start_ms - beginMs, span.duration_ms, scale)} ${time}${factsOf(span)}`.trimEnd()
  })
}

function bar(afterMs: number, durationMs: number, scale: number): string {
  const from = Math.min(WIDTH - 1, Math.floor(afterMs * scale))
  const length = Math.max(1, Math.min(WIDTH - from, Math.round(durationMs * scale)))
  return `${' '.repeat(from)}${'█'.repeat(length)}`.padEnd(WIDTH)
}

const durationOf = (ms: number): string => (ms < 10 ? `${ms.toFixed(1)} ms` : durationWords(ms))

/** Facts that distinguish runs: backend, warm or cold, ending, deadlines, failure. */
function factsOf(span: TraceSpan): string {
  const { 'cofferdam.backend': backend, 'cofferdam.warm': warm, 'cofferdam.ending': ending } = span.attributes
  const facts = [
    ...(typeof backend === 'string' ? [backend] : []),
    ...(typeof warm === 'boolean' ? [warm ? 'warm' : 'cold'] : []),
    ...(typeof ending === 'string' ? [ending] : []),
    ...span.events.filter(({ name }) => name.endsWith('_timeout')).map(({ name }) => name),
    ...(span.status === 'error'
      ? [`failed${span.status_message === null ? '' : `: ${span.status_message}`}`]
      : []),
  ]
  // A message can contain anything, so keep it on one line and without control sequences.
  // eslint-disable-next-line no-control-regex
  return facts.length === 0 ? '' : `  ${facts.join(', ').replaceAll(/[\u0000-\u001f\u007f-\u009f]/g, ' ')}`
}
