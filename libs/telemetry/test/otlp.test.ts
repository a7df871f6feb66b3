import { context, SpanKind, SpanStatusCode, trace, type Tracer } from '@opentelemetry/api'
import { execFile } from 'node:child_process'
import { createServer, type AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import {
  ATTRIBUTES,
  contextFromTraceparent,
  SPANS,
  startTelemetry,
  traceparentOf,
  withSpan,
  type Telemetry,
  type TelemetryOptions,
} from '../src/index.ts'
import { startReceiver, type ReceivedSpan, type Receiver } from './otlp-receiver.ts'

const SECRET = 'hunter2-hunter2-hunter2'
const redact = (text: string) => text.replaceAll(SECRET, '[redacted]')
const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

let receiver: Receiver
const started: Telemetry[] = []
beforeEach(async () => {
  receiver = await startReceiver()
})
afterEach(async () => {
  await Promise.all(started.splice(0).map((telemetry) => telemetry.shutdown()))
  await receiver.close()
})

async function start(options: Partial<TelemetryOptions> = {}): Promise<Telemetry> {
  const telemetry = await startTelemetry({
    service: 'cofferdam-test',
    version: '1.2.3',
    redact,
    otlpEndpoint: receiver.url,
    ...options,
  })
  started.push(telemetry)
  return telemetry
}

/** The spans of one execution as worker and executor create them. */
async function execution(tracer: Tracer): Promise<void> {
  const attributes = { [ATTRIBUTES.messagingSystem]: 'bullmq', [ATTRIBUTES.attempt]: 1 }
  await withSpan(
    tracer,
    SPANS.execution,
    attributes,
    async () => {
      await withSpan(tracer, SPANS.admission, {}, () => {})
      await withSpan(tracer, SPANS.run, { [ATTRIBUTES.warm]: true }, async (span) => {
        await Promise.resolve()
        span.addEvent('soft_timeout', { after_ms: 25 })
        await withSpan(tracer, 'inner', {}, async () => {})
      })
      await withSpan(tracer, SPANS.audit, {}, () => {})
    },
    { kind: SpanKind.CONSUMER, parent: contextFromTraceparent(PARENT) },
  )
}

const byName = (spans: ReceivedSpan[]): Record<string, ReceivedSpan> =>
  Object.fromEntries(spans.map((span) => [span.name, span]))

describe('over OTLP/HTTP', () => {
  it("delivers one tree whose root is a child of the producer's span", async () => {
    const telemetry = await start({ instance: 'wrk_1' })
    await execution(trace.getTracer('@cofferdam/test'))
    await telemetry.forceFlush()

    const spans = byName(receiver.spans)
    const root = spans[SPANS.execution]!
    const run = spans[SPANS.run]!
    expect(new Set(receiver.spans.map((s) => s.traceId))).toEqual(
      new Set(['0af7651916cd43dd8448eb211c80319c']),
    )
    expect(root.parentSpanId).toBe('b7ad6b7169203331')
    for (const child of [SPANS.admission, SPANS.run, SPANS.audit])
      expect(spans[child]?.parentSpanId).toBe(root.spanId)
    expect(spans['inner']?.parentSpanId).toBe(run.spanId)
    expect(root).toMatchObject({
      kind: 5, // CONSUMER on the wire
      scope: '@cofferdam/test',
      attributes: { 'messaging.system': 'bullmq', 'cofferdam.attempt': 1 },
      resource: {
        'service.name': 'cofferdam-test',
        'service.version': '1.2.3',
        'service.instance.id': 'wrk_1',
      },
    })
    expect(run).toMatchObject({
      attributes: { 'cofferdam.warm': true },
      events: [{ name: 'soft_timeout', attributes: { after_ms: 25 } }],
    })
    expect(receiver.bodies.every((b) => b.contentType === 'application/x-protobuf')).toBe(true)
  })

  it('redacts secrets in attributes, keys, events, links, status, name and metrics', async () => {
    const telemetry = await start()
    const tracer = telemetry.tracer('t')
    const fail = withSpan(
      tracer,
      `name ${SECRET}`,
      { plain: SECRET, list: ['a', SECRET], [SECRET]: 'key' },
      (span) => {
        span.addEvent(`event ${SECRET}`, { detail: `x${SECRET}x` })
        span.addLink({ context: span.spanContext(), attributes: { link: SECRET } })
        span.setAttribute('long', `${'a'.repeat(2040)}${SECRET}`)
        span.setAttribute('cut', `${'b'.repeat(8180)}${SECRET}`)
        throw new Error(`cannot log in with ${SECRET}`)
      },
    )
    await expect(fail).rejects.toThrow('cannot log in')
    telemetry.meter('m').createCounter('logins').add(1, { with: SECRET })
    await telemetry.forceFlush()

    const span = receiver.spans[0]!
    expect(span.name).toBe('name [redacted]')
    expect(span.attributes).toMatchObject({
      plain: '[redacted]',
      list: ['a', '[redacted]'],
      '[redacted]': 'key',
    })
    expect(span.status).toEqual({ code: SpanStatusCode.ERROR, message: 'cannot log in with [redacted]' })
    expect(span.events.map((e) => e.name)).toEqual(['event [redacted]', 'exception'])
    expect(span.events[0]?.attributes).toEqual({ detail: 'x[redacted]x' })
    expect(span.events[1]?.attributes).toMatchObject({
      'exception.type': 'Error',
      'exception.message': 'cannot log in with [redacted]',
      'exception.stacktrace': expect.stringContaining('cannot log in with [redacted]'),
    })
    expect(span.links[0]?.attributes).toEqual({ link: '[redacted]' })
    for (const key of ['long', 'cut']) expect(String(span.attributes[key]).length).toBeLessThanOrEqual(2048)

    const sinks = [
      ...receiver.bodies.map((b) => b.body.toString('latin1')),
      JSON.stringify(telemetry.recentSpans(span.traceId)),
      (await telemetry.prometheus()).body,
    ]
    expect(receiver.bodies.map((b) => b.path).toSorted()).toEqual(['/v1/metrics', '/v1/traces'])
    // Not even the start of the secret is there, although the SDK cuts values at 8,192 characters, in the
    // middle of it.
    for (const sink of sinks) expect(sink).not.toContain(SECRET.slice(0, 10))
  })

  it('flushes what is buffered when it shuts down, and only once', async () => {
    const telemetry = await start()
    await execution(telemetry.tracer('t'))
    expect(receiver.spans).toEqual([])
    await Promise.all([telemetry.shutdown(), telemetry.shutdown()])
    expect(receiver.spans).toHaveLength(5)
    expect(trace.getTracer('after').startSpan('x').isRecording()).toBe(false)
  })

  it('exports by itself within about a second', async () => {
    const telemetry = await start()
    await execution(telemetry.tracer('t'))
    await vi.waitFor(() => expect(receiver.spans).toHaveLength(5), { timeout: 20_000 })
  })

  it('passes the trace into a sandbox and back', async () => {
    const telemetry = await start()
    const span = telemetry.tracer('t').startSpan('outside')
    const traceparent = traceparentOf(span)
    const inside = telemetry.tracer('t').startSpan('inside', {}, contextFromTraceparent(traceparent))
    inside.end()
    span.end()
    await telemetry.forceFlush()
    const spans = byName(receiver.spans)
    expect(traceparent).toBe(`00-${spans['outside']?.traceId}-${spans['outside']?.spanId}-01`)
    expect(spans['inside']?.parentSpanId).toBe(spans['outside']?.spanId)
  })
})

describe('when the endpoint is down', () => {
  it('neither breaks nor slows the process, reports it once, and shuts down in time', async () => {
    const warn = vi.fn()
    const telemetry = await start({ otlpEndpoint: await closedPort(), logger: { warn } })
    const tracer = telemetry.tracer('t')
    for (let i = 0; i < 2000; i++) await execution(tracer)
    const begunAt = performance.now()
    await telemetry.shutdown()
    expect(performance.now() - begunAt).toBeLessThan(15_000) // 3 s is promised; slow machines take more
    expect(warn.mock.calls.filter(([, message]) => String(message).includes('spans'))).toHaveLength(1)
  })

  it('ends in time when the endpoint accepts and never answers', async () => {
    receiver.answer = 'hang'
    const telemetry = await start()
    await execution(telemetry.tracer('t'))
    const begunAt = performance.now()
    await telemetry.shutdown()
    expect(performance.now() - begunAt).toBeLessThan(15_000)
  })

  it('delivers again when it is back', async () => {
    receiver.answer = 500
    let nowMs = 1_000_000
    const warn = vi.fn()
    const telemetry = await start({ now: () => nowMs, logger: { warn } })
    await execution(telemetry.tracer('t'))
    await telemetry.forceFlush()
    expect(warn).toHaveBeenCalled()
    receiver.answer = 200
    await execution(telemetry.tracer('t'))
    await telemetry.forceFlush() // dropped: the exporter still pauses
    expect(receiver.spans).toEqual([])
    nowMs += 5001
    await execution(telemetry.tracer('t'))
    await telemetry.forceFlush()
    expect(receiver.spans).toHaveLength(5)
  })

  it('does not keep a process alive that has nothing else to do', async () => {
    const code = `
      const { startTelemetry, withSpan } = await import(process.argv[1])
      const t = await startTelemetry({ service: 's', version: '1', redact: (x) => x, otlpEndpoint: process.argv[2] })
      await withSpan(t.tracer('t'), 'x', {}, () => {})
      await t.shutdown()
      console.log('down')`
    const index = fileURLToPath(new URL('../src/index.ts', import.meta.url))
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ['--input-type=module', '-e', code, index, await closedPort()],
      { timeout: 30_000 },
    )
    expect(stdout).toBe('down\n')
  })
})

describe('without an endpoint', () => {
  it('still shows the waterfall of a trace, parents first', async () => {
    const telemetry = await startTelemetry({ service: 'alone', version: '1', redact })
    started.push(telemetry)
    await execution(telemetry.tracer('t'))
    const spans = telemetry.recentSpans('0af7651916cd43dd8448eb211c80319c')
    expect(spans.map((s) => s.name)).toEqual([
      SPANS.execution,
      'admission',
      'program.run',
      'inner',
      'audit.record',
    ])
    expect(spans[0]).toMatchObject({
      parent_span_id: 'b7ad6b7169203331',
      kind: 'consumer',
      service: 'alone',
      status: 'unset',
      attributes: { 'cofferdam.attempt': 1 },
    })
    expect(spans[2]?.parent_span_id).toBe(spans[0]?.span_id)
    expect(spans[2]?.events).toMatchObject([{ name: 'soft_timeout', attributes: { after_ms: 25 } }])
    expect(telemetry.recentSpans('f'.repeat(32))).toEqual([])
  })

  it('drops whole traces, oldest first, and bounds one trace', async () => {
    const telemetry = await startTelemetry({ service: 'alone', version: '1', redact, recentSpans: 300 })
    started.push(telemetry)
    const tracer = telemetry.tracer('t')
    const traces = Array.from({ length: 4 }, (_, i) => {
      const parent = contextFromTraceparent(`00-${String(i + 1).repeat(32)}-b7ad6b7169203331-01`)
      for (let n = 0; n < 200; n++) tracer.startSpan('s', {}, parent).end()
      return telemetry.recentSpans(String(i + 1).repeat(32)).length
    })
    expect(traces).toEqual([128, 128, 128, 128])
    expect([1, 2, 3, 4].map((i) => telemetry.recentSpans(String(i).repeat(32)).length)).toEqual([
      0, 0, 128, 128,
    ])
  })

  it("follows the parent's decision not to record", async () => {
    const telemetry = await startTelemetry({ service: 'alone', version: '1', redact })
    started.push(telemetry)
    const unsampled = contextFromTraceparent('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00')
    const span = telemetry.tracer('t').startSpan('x', {}, unsampled)
    expect([span.isRecording(), traceparentOf(span)?.slice(-2)]).toEqual([false, '00'])
    span.end()
    expect(telemetry.recentSpans('0af7651916cd43dd8448eb211c80319c')).toEqual([])
  })

  it('refuses an invalid endpoint URL', async () => {
    await expect(start({ otlpEndpoint: 'collector:4318' })).rejects.toMatchObject({ code: 'config_invalid' })
  })
})

describe('two telemetries in one process', () => {
  it('the first one is global, and the second one works on its own', async () => {
    const first = await start({ service: 'first' })
    const second = await start({ service: 'second' })
    expect([first.isGlobal, second.isGlobal]).toEqual([true, false])
    await withSpan(trace.getTracer('lib'), 'from a lib', {}, () => {})
    await withSpan(second.tracer('own'), 'from the second', {}, () => {})
    await second.shutdown()
    expect(trace.getTracer('lib').startSpan('x').isRecording()).toBe(true)
    await first.shutdown()
    const services = Object.fromEntries(receiver.spans.map((s) => [s.name, s.resource['service.name']]))
    expect(services).toEqual({ 'from a lib': 'first', 'from the second': 'second' })
    expect(context.active().getValue(Symbol('none'))).toBeUndefined()
  })
})

/** A URL with a port that was free a moment ago, so nothing listens there. */
async function closedPort(): Promise<string> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return `http://127.0.0.1:${port}`
}
