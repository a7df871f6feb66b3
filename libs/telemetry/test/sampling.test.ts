import { SpanStatusCode, type Span } from '@opentelemetry/api'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  ATTRIBUTES,
  contextFromTraceparent,
  SPANS,
  startTelemetry,
  withSpan,
  type EndedTrace,
  type Telemetry,
  type TelemetryOptions,
} from '../src/index.ts'
import { startReceiver, type Receiver } from './otlp-receiver.ts'

let receiver: Receiver
let telemetry: Telemetry
beforeEach(async () => {
  receiver = await startReceiver()
})
afterEach(async () => {
  await telemetry.shutdown()
  await receiver.close()
})

const start = async (options: Partial<TelemetryOptions> = {}): Promise<Telemetry> =>
  (telemetry = await startTelemetry({
    service: 'cofferdam-test',
    version: '1',
    redact: (text) => text.replaceAll('hunter2-hunter2', '[redacted]'),
    otlpEndpoint: receiver.url,
    ...options,
  }))

let traces = 0
/**
 * A new trace ID. Its last 32 bits decide whether it is in the sampled share. Here they are in the middle of
 * their range.
 */
const newTraceparent = (): string =>
  `00-${(++traces).toString(16).padStart(24, '0')}80000000-b7ad6b7169203331-01`

/** One attempt of three spans below a remote parent. `during` may mark them. */
const attempt = (
  during: { root?: (span: Span) => void; run?: (span: Span) => void } = {},
  traceparent = newTraceparent(),
): Promise<void> =>
  withSpan(
    telemetry.tracer('t'),
    SPANS.execution,
    { [ATTRIBUTES.executionId]: `exe_${traces}` },
    async (root) => {
      await withSpan(telemetry.tracer('t'), SPANS.admission, {}, () => {})
      await withSpan(telemetry.tracer('t'), SPANS.run, {}, (run) => during.run?.(run))
      during.root?.(root)
    },
    { parent: contextFromTraceparent(traceparent) },
  )

const sentNames = async (): Promise<string[]> => {
  await telemetry.forceFlush()
  return receiver.spans.splice(0).map((span) => span.name)
}
const WHOLE = [SPANS.admission, SPANS.run, SPANS.execution]

describe('sampling', () => {
  it('sends no successful execution at a share of 0, and all of them at 1', async () => {
    await start({ sampleRatio: 0 })
    await attempt({ root: (span) => span.setAttribute(ATTRIBUTES.ending, 'ok') })
    expect(await sentNames()).toEqual([])
    await telemetry.shutdown()
    await start({ sampleRatio: 1 })
    await attempt()
    expect(await sentNames()).toEqual(WHOLE)
  })

  it.each<[string, Parameters<typeof attempt>[0]]>([
    ['failed inside', { run: (span) => span.setStatus({ code: SpanStatusCode.ERROR }) }],
    ['met an error', { run: (span) => span.setAttribute(ATTRIBUTES.errorType, 'store_unavailable') }],
    ['was refused', { root: (span) => span.setAttribute(ATTRIBUTES.ending, 'cap_exceeded') }],
    ['passed a deadline', { run: (span) => span.addEvent('soft_timeout') }],
    [
      'waited long',
      { root: (span) => span.setAttributes({ [ATTRIBUTES.queueWaitMs]: 10_000, [ATTRIBUTES.ending]: 'ok' }) },
    ],
  ])('sends all spans of an attempt that %s, also the successful ones', async (_what, during) => {
    await start({ sampleRatio: 0 })
    await attempt(during)
    expect(await sentNames()).toEqual(WHOLE)
  })

  it('sends nothing of a deferred attempt, however long it has waited', async () => {
    await start({ sampleRatio: 0 })
    await attempt({ root: (span) => span.setAttribute(ATTRIBUTES.queueWaitMs, 600_000) })
    expect(await sentNames()).toEqual([])
  })

  it('sends slow executions', async () => {
    await start({ sampleRatio: 0, slowMs: 1 })
    await attempt({
      run() {
        // Takes 5 ms inside the attempt. A deadline set earlier could pass before the attempt starts.
        const until = performance.now() + 5
        while (performance.now() < until) continue
      },
    })
    expect(await sentNames()).toEqual(WHOLE)
  })

  it('decides about the others by trace ID, the same in every process', async () => {
    const spans = async (ratio: number) => {
      await start({ sampleRatio: ratio })
      await attempt()
      const names = await sentNames()
      await telemetry.shutdown()
      return names.length
    }
    // The ids of this file are in the middle of the range.
    expect([await spans(0.49), await spans(0.51)]).toEqual([0, 3])
  })

  it('continues after more traces than it remembers', async () => {
    await start()
    const count = 4200
    for (let sent = 1; sent <= count; sent += 1) {
      const parent = contextFromTraceparent(newTraceparent())
      await withSpan(telemetry.tracer('t'), SPANS.execution, {}, () => {}, { parent })
      // The exporter keeps 8,192 spans at most.
      if (sent % 1000 === 0) await telemetry.forceFlush()
    }
    expect(await sentNames()).toHaveLength(count)
  })

  it('sends spans that end later in a trace that was sent', async () => {
    await start({ sampleRatio: 0 })
    const traceparent = newTraceparent()
    let late: Span | undefined
    await attempt(
      {
        root(span) {
          span.setAttribute(ATTRIBUTES.ending, 'oom')
          late = telemetry.tracer('t').startSpan('late')
        },
      },
      traceparent,
    )
    late?.end()
    await attempt({}, traceparent)
    expect(await sentNames()).toEqual([...WHOLE, 'late', ...WHOLE])
  })

  it('counts its decisions', async () => {
    await start({ sampleRatio: 0 })
    await attempt()
    await attempt({ root: (span) => span.setAttribute(ATTRIBUTES.ending, 'oom') })
    const { body } = await telemetry.prometheus()
    expect(body).toContain('cofferdam_traces_total{cofferdam_trace_decision="dropped"} 1')
    expect(body).toContain('cofferdam_traces_total{cofferdam_trace_decision="failed"} 1')
  })

  it('holds back a bounded number of spans, sends older ones, and drops unfinished ones', async () => {
    // Ten thousand spans take time, but none must count as slow.
    await start({ sampleRatio: 0, slowMs: 600_000 })
    const tracer = telemetry.tracer('t')
    const roots: Span[] = []
    // 100 open attempts of 100 ended spans each: 10,000, above the 8,192 that are held.
    for (let i = 0; i < 100; i++) {
      const root = tracer.startSpan('root', {}, contextFromTraceparent(newTraceparent()))
      const below = contextFromTraceparent(null)
      roots.push(root)
      const parent = (await import('@opentelemetry/api')).trace.setSpan(below, root)
      for (let n = 0; n < 100; n++) tracer.startSpan('child', {}, parent).end()
      tracer.startSpan('never ends', {}, parent)
    }
    const early = await sentNames()
    expect(early.length).toBeGreaterThanOrEqual(10_000 - 8192)
    expect(early.length).toBeLessThan(10_000 - 8192 + 101)
    for (const root of roots) root.end()
    // A root is sent if its children were sent early. The other traces were successful and are dropped.
    expect(new Set(await sentNames())).toEqual(new Set(['root']))
  })

  it('sends the spans of an attempt that an ending process leaves open', async () => {
    await start({ sampleRatio: 0 })
    const tracer = telemetry.tracer('t')
    const { trace } = await import('@opentelemetry/api')
    const root = tracer.startSpan('root', {}, contextFromTraceparent(newTraceparent()))
    tracer.startSpan('child', {}, trace.setSpan(contextFromTraceparent(null), root)).end()
    await telemetry.shutdown()
    expect(receiver.spans.map((span) => span.name)).toEqual(['child'])
  })
})

describe('a listener of traces', () => {
  it('gets every execution, sampled or not, redacted, parents first, until it unsubscribes', async () => {
    await start({ sampleRatio: 0 })
    const heard: EndedTrace[] = []
    const stop = telemetry.onTrace((trace) => heard.push(trace))
    await attempt({ run: (span) => span.setAttribute('note', 'say hunter2-hunter2') })
    await attempt({ root: (span) => span.setAttribute(ATTRIBUTES.ending, 'error') })
    await withSpan(telemetry.tracer('t'), 'not an execution', {}, () => {})
    stop()
    await attempt()
    expect(heard.map(({ failed }) => failed)).toEqual([false, true])
    const spans = heard[0]?.read() ?? []
    expect(spans.map((span) => span.name)).toEqual([SPANS.execution, SPANS.admission, SPANS.run])
    expect(JSON.stringify(spans)).toContain('say [redacted]')
    expect(JSON.stringify(spans)).not.toContain('hunter2')
  })
})
