import { ROOT_CONTEXT, trace } from '@opentelemetry/api'
import { describe, expect, it } from 'vitest'
import { contextFromTraceparent, traceparentOf } from './traceparent.ts'

const TRACE = '0af7651916cd43dd8448eb211c80319c'
const SPAN = 'b7ad6b7169203331'

describe('traceparent', () => {
  it.each([`00-${TRACE}-${SPAN}-01`, `00-${TRACE}-${SPAN}-00`])('%s goes in and comes out', (traceparent) => {
    const span = trace.getSpan(contextFromTraceparent(traceparent))
    expect(span?.spanContext()).toMatchObject({ traceId: TRACE, spanId: SPAN, isRemote: true })
    expect(traceparentOf(span)).toBe(traceparent)
  })

  it('accepts what later versions add, and keeps only the flags that it knows', () => {
    expect(traceparentOf(trace.getSpan(contextFromTraceparent(`cc-${TRACE}-${SPAN}-ff-more`)))).toBe(
      `00-${TRACE}-${SPAN}-01`,
    )
  })

  it.each([
    null,
    undefined,
    '',
    'nonsense',
    `ff-${TRACE}-${SPAN}-01`,
    `00-${TRACE}-${SPAN}-01-more`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE.toUpperCase()}-${SPAN}-01`,
  ])('%s is no parent', (traceparent) => {
    expect(contextFromTraceparent(traceparent)).toBe(ROOT_CONTEXT)
  })

  it('is null without a tracer', () => {
    expect(traceparentOf(undefined)).toBeNull()
    expect(traceparentOf(trace.getTracer('none').startSpan('x'))).toBeNull()
  })
})
