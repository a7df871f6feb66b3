/** A small OTLP/HTTP receiver on a free port, which decodes requests. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'
import protobuf from 'protobufjs'

export interface ReceivedSpan {
  traceId: string
  spanId: string
  parentSpanId: string
  name: string
  kind: number
  durationMs: number
  attributes: Record<string, unknown>
  events: { name: string; attributes: Record<string, unknown> }[]
  links: { traceId: string; attributes: Record<string, unknown> }[]
  status: { code: number; message: string }
  resource: Record<string, unknown>
  scope: string
}

export interface Receiver {
  url: string
  spans: ReceivedSpan[]
  /** Raw bodies by path, to find what the decoder ignores. */
  bodies: { path: string; contentType: string; body: Buffer }[]
  /** How the next requests are answered. `hang` never answers. */
  answer: number | 'hang'
  close(): Promise<void>
}

interface WireAny {
  value?: string
  stringValue?: string
  boolValue?: boolean
  intValue?: string | number
  doubleValue?: number
  arrayValue?: { values?: WireAny[] }
}
interface WireKeyValue {
  key: string
  value: WireAny
}
interface WireSpan {
  traceId: string
  spanId: string
  parentSpanId: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: WireKeyValue[]
  events: { name: string; attributes: WireKeyValue[] }[]
  links: { traceId: string; attributes: WireKeyValue[] }[]
  status: { code: number; message: string } | null
}
interface WireRequest {
  resourceSpans: {
    resource: { attributes: WireKeyValue[] }
    scopeSpans: { scope: { name: string }; spans: WireSpan[] }[]
  }[]
}

const REQUEST = protobuf
  .parse(readFileSync(new URL('otlp-trace.proto', import.meta.url), 'utf8'))
  .root.lookupType('otlp.ExportTraceServiceRequest')

export async function startReceiver(): Promise<Receiver> {
  const receiver: Receiver = { url: '', spans: [], bodies: [], answer: 200, close }
  const server = createServer((request, response) => {
    void buffer(request).then((body) => {
      const path = request.url ?? ''
      if (receiver.answer === 'hang') return
      if (receiver.answer === 200) {
        receiver.bodies.push({ path, contentType: request.headers['content-type'] ?? '', body })
        if (path === '/v1/traces') receiver.spans.push(...decode(body))
      }
      response.writeHead(receiver.answer, { 'content-type': 'application/x-protobuf' }).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return receiver

  async function close(): Promise<void> {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

function decode(body: Buffer): ReceivedSpan[] {
  const request = REQUEST.toObject(REQUEST.decode(body), {
    defaults: true,
    arrays: true,
    longs: String,
    bytes: String,
  }) as unknown as WireRequest
  return request.resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ scope, spans }) =>
      spans.map((span) => ({
        traceId: hex(span.traceId),
        spanId: hex(span.spanId),
        parentSpanId: hex(span.parentSpanId),
        name: span.name,
        kind: span.kind,
        durationMs: Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6,
        attributes: record(span.attributes),
        events: span.events.map((e) => ({ name: e.name, attributes: record(e.attributes) })),
        links: span.links.map((l) => ({ traceId: hex(l.traceId), attributes: record(l.attributes) })),
        status: { code: span.status?.code ?? 0, message: span.status?.message ?? '' },
        resource: record(resource.attributes),
        scope: scope.name,
      })),
    ),
  )
}

const hex = (base64: string): string => Buffer.from(base64, 'base64').toString('hex')

const record = (pairs: WireKeyValue[]): Record<string, unknown> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, plain(value)]))

function plain(any: WireAny): unknown {
  if (any.arrayValue != null) return (any.arrayValue.values ?? []).map(plain)
  if (any.intValue != null) return Number(any.intValue)
  return any.stringValue ?? any.boolValue ?? any.doubleValue
}
