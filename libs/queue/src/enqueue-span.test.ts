import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
  type Context,
  type Span,
  type TracerProvider,
} from '@opentelemetry/api'
import { CofferdamError, executionRequestSchema } from '@cofferdam/contract'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { withEnqueueSpan } from './enqueue-span.ts'

const request = executionRequestSchema.parse({
  tenant_id: 'acme',
  agent_id: 'a',
  program: { type: 'install' },
})
const parent = `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`

afterEach(() => trace.disable())

describe('the span of an enqueue', () => {
  it("keeps the caller's traceparent without a tracer, and is absent if the caller sent none", async () => {
    expect(await withEnqueueSpan(request, parent, async (context) => context)).toBe(parent)
    expect(await withEnqueueSpan(request, undefined, async (context) => context)).toBeNull()
  })

  it("is a child of the caller's span, and the worker gets its context", async () => {
    const startSpan = vi.fn((_name: string, _options: unknown, from: Context = context.active()) => {
      const spanContext = {
        traceId: trace.getSpanContext(from)?.traceId ?? 'c'.repeat(32),
        spanId: 'd'.repeat(16),
        traceFlags: TraceFlags.SAMPLED,
      }
      return Object.assign(trace.wrapSpanContext(spanContext), { end }) as Span
    })
    const end = vi.fn()
    trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) } as unknown as TracerProvider)
    const travelling = await withEnqueueSpan(request, parent, async (traceparent) => traceparent)
    expect(travelling).toBe(`00-${'a'.repeat(32)}-${'d'.repeat(16)}-01`)
    expect(startSpan).toHaveBeenCalledWith(
      'send interactive',
      expect.objectContaining({
        kind: SpanKind.PRODUCER,
        attributes: expect.objectContaining({
          'cofferdam.tenant.id': 'acme',
          'messaging.operation.name': 'send',
          'messaging.operation.type': 'send',
          'messaging.destination.name': 'interactive',
        }),
      }),
      expect.anything(),
    )
    expect(end).toHaveBeenCalledTimes(1)
    expect(trace.getSpanContext(ROOT_CONTEXT)).toBeUndefined()
  })

  it('ends with the error when the enqueue fails', async () => {
    const [setAttribute, setStatus, end] = [vi.fn(), vi.fn(), vi.fn()]
    const startSpan = () =>
      Object.assign(trace.wrapSpanContext({ traceId: '', spanId: '', traceFlags: 0 }), {
        setAttribute,
        setStatus,
        end,
      })
    trace.setGlobalTracerProvider({ getTracer: () => ({ startSpan }) } as unknown as TracerProvider)
    const full = new CofferdamError('queue_full')
    await expect(withEnqueueSpan(request, undefined, () => Promise.reject(full))).rejects.toThrow(full)
    expect(setAttribute).toHaveBeenCalledWith('error.type', 'queue_full')
    expect(setStatus).toHaveBeenCalledWith({ code: SpanStatusCode.ERROR, message: 'queue_full' })
    expect(end).toHaveBeenCalledTimes(1)
  })
})
