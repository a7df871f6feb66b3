import {
  trace,
  type Attributes,
  type Context,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api'
import { CofferdamError } from '@cofferdam/contract'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { attemptOf, harness } from '../test/attempts.ts'
import { exitOf, scriptedBackend } from '../test/scripted-backend.ts'

interface Recorded {
  name: string
  parentSpanId: string | undefined
  context: SpanContext
  attributes: Attributes
  events: string[]
  ended: boolean
}

const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
let spans: Recorded[] = []

/** A tracer that implements only the OpenTelemetry API, so that the test needs no SDK. */
function recordingTracer(): Tracer {
  const start = (name: string, attributes: Attributes, parent: Context): Span => {
    const above = trace.getSpanContext(parent)
    const recorded: Recorded = {
      name,
      parentSpanId: above?.spanId,
      context: {
        traceId: above?.traceId ?? 'f'.repeat(32),
        spanId: String(spans.length + 1).padStart(16, '0'),
        traceFlags: 1,
      },
      attributes: { ...attributes },
      events: [],
      ended: false,
    }
    spans.push(recorded)
    const span = trace.wrapSpanContext(recorded.context)
    return Object.assign(span, {
      setAttribute: (key: string, value: string) => ((recorded.attributes[key] = value), span),
      setAttributes: (more: Attributes) => (Object.assign(recorded.attributes, more), span),
      addEvent: (event: string) => (recorded.events.push(event), span),
      end: () => (recorded.ended = true),
    })
  }
  return {
    startSpan: (name, options, parent) => start(name, options?.attributes ?? {}, parent as Context),
    startActiveSpan: (
      name: string,
      options: { attributes: Attributes },
      parent: Context,
      work: (span: Span) => unknown,
    ) => work(start(name, options.attributes, parent)),
  } as Tracer
}

beforeEach(() => {
  spans = []
  const tracer = recordingTracer()
  trace.setGlobalTracerProvider({ getTracer: () => tracer })
})
afterEach(() => trace.disable())

const named = (name: string) => spans.find((span) => span.name === name)

describe('spans of an attempt', () => {
  it('are siblings below the parent, tell where the attempt ran, and are ended', async () => {
    const { executor } = harness([scriptedBackend()])
    await executor.execute(attemptOf({}, { traceparent: PARENT }))
    expect(spans.map(({ name }) => name).toSorted()).toEqual([
      'program.run',
      'sandbox.acquire',
      'sandbox.prepare',
    ])
    for (const span of spans) {
      expect(span).toMatchObject({ parentSpanId: 'b7ad6b7169203331', ended: true })
      expect(span.context.traceId).toBe('0af7651916cd43dd8448eb211c80319c')
    }
    const place = {
      'cofferdam.backend': 'scripted',
      'cofferdam.isolation': 'container',
      'cofferdam.warm': false,
    }
    expect(named('sandbox.acquire')?.attributes).toMatchObject(place)
    expect(named('program.run')?.attributes).toMatchObject({ ...place, 'cofferdam.ending': 'ok' })
  })

  it('name the sandbox as its vendor does, if the name can be stored', async () => {
    const names: [string, string | undefined][] = [
      ['claim/pod', 'claim/pod'],
      ['x'.repeat(257), undefined],
      ['a\0b', undefined],
    ]
    for (const [vendorRef, shown] of names) {
      spans = []
      const { executor } = harness([scriptedBackend({ vendorRef })])
      expect((await executor.execute(attemptOf({}))).vendorRef).toBe(shown)
      for (const name of ['sandbox.acquire', 'program.run'])
        expect(named(name)?.attributes['cofferdam.vendor.ref'], name).toBe(shown)
    }
  })

  it("are parents of the program's own spans", async () => {
    const backend = scriptedBackend()
    await harness([backend]).executor.execute(attemptOf({}, { traceparent: PARENT }))
    const { traceId, spanId } = named('program.run')?.context ?? {}
    expect(backend.specs[0]?.env['TRACEPARENT']).toBe(`00-${traceId}-${spanId}-01`)
  })

  it('have the deadlines as events', async () => {
    const backend = scriptedBackend({ run: async ({ interrupted }) => (await interrupted, exitOf()) })
    const limits = { soft_timeout_ms: 10, hard_timeout_ms: 60_000 }
    await harness([backend]).executor.execute(attemptOf({ limits }))
    expect(named('program.run')?.events).toEqual(['program.started', 'soft_timeout'])
  })

  it('have the backends that were passed over as events', async () => {
    const broken = scriptedBackend({
      name: 'broken',
      open: () => Promise.reject(new CofferdamError('sandbox_open_failed')),
    })
    await harness([broken, scriptedBackend()]).executor.execute(attemptOf())
    expect(named('sandbox.acquire')?.events).toEqual(['backend.passed_over'])
  })

  it('do not export program.run when no program ran', async () => {
    const backend = scriptedBackend({ open: () => Promise.reject(new CofferdamError('sandbox_open_failed')) })
    await harness([backend]).executor.execute(attemptOf())
    expect(named('program.run')?.ended).toBe(false)
    expect(named('sandbox.acquire')?.ended).toBe(true)
  })
})

it("the parent's trace is passed on without a tracer", async () => {
  trace.disable()
  const backend = scriptedBackend()
  await harness([backend]).executor.execute(attemptOf({}, { traceparent: PARENT }))
  expect(backend.specs[0]?.env['TRACEPARENT']).toBe(PARENT)
})
