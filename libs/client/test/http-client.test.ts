import { context, trace, TraceFlags } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  composeAttempt,
  executionRequestSchema,
  newExecutionId,
  outcomeWithoutRun,
  toErrorBody,
  CofferdamError,
  type ExecutionResult,
  type StoredEvent,
} from '@cofferdam/contract'
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { createClient, type Client } from '../src/index.ts'
import { breakOff, hangUp, json, sse, startWireServer, type Handler, type WireServer } from './wire-server.ts'

const id = newExecutionId()
const input = {
  tenant_id: 'acme',
  agent_id: 'agent-1',
  program: { type: 'script', language: 'python', source: 'print(1)' },
} as const
const result: ExecutionResult = composeAttempt({
  executionId: id,
  attempt: 1,
  request: executionRequestSchema.parse(input),
  outcome: outcomeWithoutRun('ok', 'test', ''),
  enqueuedAtMs: 1,
  startedAtMs: 2,
  finishedAtMs: 3,
  traceId: null,
  retentionDays: 30,
  caps: null,
  chargedAtMs: null,
}).result
const accepted = { execution_id: id, status: 'queued', position: 3, eta_ms: 1200, deduplicated: false }
const state = (status: string, ended: ExecutionResult | null = null) => ({
  execution_id: id,
  tenant_id: 'acme',
  agent_id: 'agent-1',
  status,
  attempt: 1,
  enqueued_at: '2026-01-01T00:00:00.000Z',
  started_at: null,
  position: null,
  eta_ms: null,
  result: ended,
})
const ended = {
  id: '11-0',
  event: { type: 'ended', at_ms: 2, attempt: 1, ending: 'ok', exit_status: 'ok', exit_code: 0 } as const,
}
const failure = (error: CofferdamError): Handler => {
  const { http, body } = toErrorBody(error, 'a'.repeat(32))
  return json(http, body)
}

let server: WireServer | null = null
let client: Client | null = null
async function connect(
  ...handlers: [Handler, ...Handler[]]
): Promise<{ server: WireServer; client: Client }> {
  server = await startWireServer(...handlers)
  client = createClient({ baseUrl: server.baseUrl, apiKey: 'cfd_test' })
  return { server, client }
}
afterEach(async () => {
  await client?.close()
  await server?.[Symbol.asyncDispose]()
})

describe('the client over HTTP', () => {
  it('enqueues with its API key and a new idempotency key', async () => {
    const { server, client } = await connect(json(202, accepted))
    expect(await client.enqueue(input)).toEqual(accepted)
    expect(server.seen[0]).toMatchObject({
      method: 'POST',
      path: '/v1/executions',
      headers: { authorization: 'Bearer cfd_test', 'content-type': 'application/json' },
      body: { ...input, idempotency_key: expect.stringMatching(/^[0-9a-f-]{36}$/) },
    })
  })

  it('repeats an enqueue with the same idempotency key when the answer was lost or incomplete', async () => {
    const { server, client } = await connect(
      hangUp,
      breakOff,
      failure(new CofferdamError('queue_unavailable')),
      json(202, accepted),
    )
    expect(await client.enqueue({ ...input, idempotency_key: 'mine' })).toEqual(accepted)
    expect(server.seen.map(({ body }) => (body as { idempotency_key: string }).idempotency_key)).toEqual([
      'mine',
      'mine',
      'mine',
      'mine',
    ])
  })

  it('runs in one request when the result arrives within the wait', async () => {
    const { server, client } = await connect(json(200, result))
    expect(await client.run(input, { timeoutMs: 20_000 })).toEqual(result)
    expect(server.seen.map(({ path }) => path)).toEqual(['/v1/executions?wait=20000ms'])
  })

  it('polls for a result that does not arrive within the wait, even through an outage', async () => {
    const { server, client } = await connect(
      json(202, accepted),
      json(200, state('running')),
      hangUp,
      breakOff,
      failure(new CofferdamError('shutting_down')),
      json(200, state('ended', result)),
    )
    expect(await client.run(input)).toEqual(result)
    expect(server.seen.at(-1)?.path).toBe(`/v1/executions/${id}`)
  })

  it('run rejects with wait_timeout and the ID, and wait resolves with null', async () => {
    const { client } = await connect(json(202, accepted), json(200, state('queued')))
    await expect(client.run(input, { timeoutMs: 120 })).rejects.toMatchObject({
      code: 'wait_timeout',
      details: { execution_id: id },
    })
    expect(await client.wait(id, { timeoutMs: 60 })).toBeNull()
  })

  it("turns the API's errors into CofferdamErrors with the same code and details", async () => {
    const full = new CofferdamError('queue_full', 'too many', { details: { queued: 7, limit: 7 } })
    const { server, client } = await connect(failure(full))
    await expect(client.enqueue(input)).rejects.toMatchObject({
      name: 'CofferdamError',
      code: 'queue_full',
      message: 'too many',
      details: { queued: 7, limit: 7, status: 429, trace_id: 'a'.repeat(32) },
    })
    expect(server.seen).toHaveLength(1)
  })

  it('reports the status of answers that the API did not write', async () => {
    const { client } = await connect((_request, response) => void response.writeHead(403).end('<html>'))
    await expect(client.get(id)).rejects.toMatchObject({ code: 'forbidden', details: { status: 403 } })
  })

  it('an unknown execution is null from get, and not_found from wait, cancel and stream', async () => {
    const { client } = await connect(failure(new CofferdamError('not_found')))
    expect(await client.get(id)).toBeNull()
    expect(await client.cancel(id)).toBe('not_found')
    await expect(client.wait(id)).rejects.toMatchObject({ code: 'not_found' })
    await expect(Array.fromAsync(client.stream(id))).rejects.toMatchObject({ code: 'not_found' })
  })

  it('cancels with a reason', async () => {
    const { server, client } = await connect(json(200, { execution_id: id, status: 'cancelling' }))
    expect(await client.cancel(id, 'enough')).toBe('cancelling')
    expect(server.seen[0]).toMatchObject({ path: `/v1/executions/${id}/cancel`, body: { reason: 'enough' } })
  })

  it('streams events, and resumes after the last one when the connection breaks', async () => {
    const output = (n: number) => ({
      id: `10-${n}`,
      event: { type: 'output', at_ms: 1, stream: 'stdout', text: `${n}` } as const,
    })
    const { server, client } = await connect(
      sse([output(0), output(1)], 'break'),
      hangUp,
      sse([output(2)]),
      sse([ended]),
    )
    const events: StoredEvent[] = await Array.fromAsync(client.stream(id, { after: '9-0' }))
    expect(events).toEqual([output(0), output(1), output(2), ended])
    expect(server.seen.map(({ headers }) => headers['last-event-id'])).toEqual([
      '9-0',
      '10-1',
      '10-1',
      '10-2',
    ])
  })

  it('keeps streaming over connections that break without an event, as long as each had lasted', async () => {
    vi.useFakeTimers({ toFake: ['performance'] })
    onTestFinished(() => void vi.useRealTimers())
    let connections = 0
    /** Sends a comment, and breaks the connection six simulated seconds after the comment was read. */
    const old = (): ReadableStream<Uint8Array> => {
      let pulls = 0
      return new ReadableStream({
        pull(stream) {
          pulls += 1
          if (pulls === 1) return stream.enqueue(new TextEncoder().encode(': \n\n'))
          vi.advanceTimersByTime(6000)
          return stream.error(new Error('cut'))
        },
      })
    }
    const event = `id: ${ended.id}\ndata: ${JSON.stringify(ended.event)}\n\n`
    const cutAfterSixSeconds = async () => new Response((connections += 1) <= 6 ? old() : event)
    const patient = createClient({
      baseUrl: 'http://api.test',
      apiKey: 'cfd_test',
      fetch: cutAfterSixSeconds,
      retryForMs: 10_000,
    })
    expect(await Array.fromAsync(patient.stream(id))).toEqual([ended])
    expect(connections).toBe(7)
  })

  it('gives up a stream whose connections break at once', async () => {
    const { server } = await connect(sse([], 'break'))
    const impatient = createClient({ baseUrl: server.baseUrl, apiKey: 'cfd_test', retryForMs: 0 })
    await expect(Array.fromAsync(impatient.stream(id))).rejects.toMatchObject({ code: 'queue_unavailable' })
    expect(server.seen).toHaveLength(5)
  })

  it('ends a stream when the API has nothing more, and when the signal aborts', async () => {
    const { client } = await connect(
      (_request, response) => void response.writeHead(204).end(),
      (_request, response) => {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      },
    )
    expect(await Array.fromAsync(client.stream(id, { after: '11-0' }))).toEqual([])
    expect(await Array.fromAsync(client.stream(id, { signal: AbortSignal.timeout(50) }))).toEqual([])
  })

  it('stops waiting with the reason of the signal', async () => {
    const { client } = await connect(json(200, state('running')))
    const stop = new AbortController()
    const waiting = client.wait(id, { signal: stop.signal })
    stop.abort(new Error('no longer needed'))
    await expect(waiting).rejects.toThrow('no longer needed')
  })

  it('sends the trace of the active span', async () => {
    const { server, client } = await connect(json(202, accepted))
    const manager = new AsyncLocalStorageContextManager().enable()
    context.setGlobalContextManager(manager)
    const span = { traceId: '1'.repeat(32), spanId: '2'.repeat(16), traceFlags: TraceFlags.SAMPLED }
    await context.with(trace.setSpanContext(context.active(), span), () => client.enqueue(input))
    context.disable()
    expect(server.seen[0]?.headers['traceparent']).toBe(`00-${'1'.repeat(32)}-${'2'.repeat(16)}-01`)
  })
})
