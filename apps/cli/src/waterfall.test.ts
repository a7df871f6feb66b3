import type { TraceSpan } from '@cofferdam/contract'
import { expect, it } from 'vitest'
import { waterfallLines } from './waterfall.ts'

const span = (
  id: string,
  parent: string | null,
  name: string,
  startMs: number,
  ms: number,
  more: Partial<TraceSpan> = {},
): TraceSpan => ({
  trace_id: 't',
  span_id: id,
  parent_span_id: parent,
  name,
  kind: 'internal',
  service: 's',
  start_ms: startMs,
  duration_ms: ms,
  status: 'unset',
  status_message: null,
  attributes: {},
  events: [],
  ...more,
})

it('draws spans below their parents on one time scale, with their attributes', () => {
  const lines = waterfallLines([
    span('a', 'elsewhere', 'POST /v1/executions', 1000, 36),
    span('b', 'a', 'cofferdam.execution', 1018, 18, { attributes: { 'cofferdam.ending': 'soft_timeout' } }),
    span('c', 'b', 'program.run', 1027, 9, {
      attributes: { 'cofferdam.backend': 'docker', 'cofferdam.warm': true },
      events: [{ name: 'soft_timeout', at_ms: 1030, attributes: {} }],
    }),
    span('d', 'b', 'audit.record', 1035, 0.2, { status: 'error', status_message: 'down\u001b[31m' }),
  ])
  expect(lines).toEqual([
    `POST /v1/executions                ${'█'.repeat(36)}     36 ms`,
    `  cofferdam.execution              ${' '.repeat(18)}${'█'.repeat(18)}     18 ms  soft_timeout`,
    `    program.run                    ${' '.repeat(27)}${'█'.repeat(9)}    9.0 ms  docker, warm, ` +
      `soft_timeout`,
    `    audit.record                   ${' '.repeat(35)}█    0.2 ms  failed: down [31m`,
  ])
})

it('draws a single span without a duration', () => {
  expect(waterfallLines([span('a', null, 'x', 5, 0)])[0]).toMatch(/^x +█ +0\.0 ms$/)
})
