import type { ExecutionState } from '@cofferdam/client'
import { expect, it } from 'vitest'
import { waterfallOf, type Span } from './waterfall.ts'

const span = (
  id: string,
  parent: string | null,
  from: number,
  to: number,
  more: Partial<Span> = {},
): Span => ({
  trace_id: 't',
  span_id: id,
  parent_span_id: parent,
  name: id,
  kind: 'internal',
  service: 'cofferdam-worker',
  start_ms: from,
  duration_ms: to - from,
  status: 'unset',
  status_message: null,
  attributes: {},
  events: [],
  ...more,
})
const state = (more: Partial<ExecutionState> = {}): ExecutionState => ({
  execution_id: 'exe_1',
  tenant_id: 'acme',
  agent_id: 'a',
  status: 'ended',
  attempt: 1,
  enqueued_at: new Date(1000).toISOString(),
  started_at: new Date(3000).toISOString(),
  position: null,
  eta_ms: null,
  result: null,
  ...more,
})

it.each([
  ['in its own process', 'cofferdam-worker', 'cofferdam-api'],
  ['in the process of the API, as `cofferdam up` runs it', 'cofferdam-up', 'cofferdam-up'],
])('shows the wait, the spans and the longest way through them for a worker %s', (_, service, apiService) => {
  const { bars, isCoarse, startMs, endMs } = waterfallOf(
    state(),
    [
      span('api', null, 900, 9000, { kind: 'server', service: apiService }),
      span('attempt', 'api', 3000, 6000, { kind: 'consumer' }),
      span('admission', 'attempt', 3000, 3100),
      span('run', 'attempt', 3100, 5000, { events: [{ name: 'started', at_ms: 3200, attributes: {} }] }),
      span('acquire', 'run', 3100, 3900),
      span('beside', 'attempt', 3100, 3300, { status: 'error', status_message: 'no' }),
      span('audit', 'attempt', 5000, 6000),
    ].map((one) => (one.kind === 'server' ? one : { ...one, service })),
    null,
    0,
  )
  expect(isCoarse).toBe(false)
  expect([startMs, endMs]).toEqual([1000, 6000])
  expect(bars.map(({ name, depth }) => [name, depth])).toEqual([
    ['queue', 0],
    ['api', 0],
    ['attempt', 1],
    ['admission', 2],
    ['run', 2],
    ['acquire', 3],
    ['beside', 2],
    ['audit', 2],
  ])
  expect(bars[0]).toMatchObject({ startMs: 1000, endMs: 3000, tone: 'wait' })
  expect(bars.filter((bar) => !bar.isCritical).map(({ name }) => name)).toEqual(['api', 'beside'])
  expect(bars.find(({ name }) => name === 'run')?.ticks).toEqual([{ name: 'started', atMs: 3200 }])
  expect(bars.find(({ name }) => name === 'beside')).toMatchObject({ tone: 'bad', facts: { status: 'no' } })
})

it('survives spans that name themselves, a missing parent, or each other', () => {
  const spans = [span('a', 'b', 0, 10, { kind: 'consumer' }), span('b', 'a', 0, 10), span('c', 'c', 0, 5)]
  expect(waterfallOf(state(), spans, null, 0).bars).toHaveLength(4)
})

it('makes a coarse one out of the result, and of the clock while it lives', () => {
  const result = { queue_ms: 2000, duration_ms: 1000 } as ExecutionState['result']
  const ended = waterfallOf(state({ result }), [], 400, 0)
  expect(ended.isCoarse).toBe(true)
  expect(ended.bars.map(({ name, startMs, endMs }) => [name, startMs, endMs])).toEqual([
    ['queue', 1000, 3000],
    ['sandbox', 3000, 3400],
    ['run', 3400, 4000],
  ])
  const running = waterfallOf(state({ status: 'running' }), [], null, 9000)
  expect(running.bars.map(({ name, endMs }) => [name, endMs])).toEqual([
    ['queue', 3000],
    ['run', 9000],
  ])
  const waiting = waterfallOf(state({ status: 'queued', started_at: null }), [], null, 9000)
  expect(waiting.bars.map(({ name, endMs }) => [name, endMs])).toEqual([['queue', 9000]])
})
