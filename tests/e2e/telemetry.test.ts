/**
 * What the API and the worker really send: only names of the catalog, no secret, every failure, and an
 * execution's waterfall of spans.
 */
import { randomBytes } from 'node:crypto'
import { loadConfig, runApi, type RunningApi } from '@cofferdam/api'
import { executionTraceSchema, type ExecutionRequestInput, type ExecutionTrace } from '@cofferdam/contract'
import { createLogger, METRIC_FACTS, prometheusName, SPAN_FACTS, SPANS } from '@cofferdam/telemetry'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startReceiver, type Receiver } from '../../libs/telemetry/test/otlp-receiver.ts'
import { startFleet, type Fleet, type FleetWorker } from '../fleet.ts'
import { freePort } from '@cofferdam/embedded/testing'

let fleet: Fleet
let worker: FleetWorker
let receiver: Receiver
let api: RunningApi
let metricsPort: number
let adminKey: string
let tenantKey: string
let apiLog = ''

/** A token of a known form, and a text that is a secret only because of where it was given. */
const TOKEN = `sk-ant-api03-${randomBytes(40).toString('hex')}`
const PRIVATE = `canary-${randomBytes(12).toString('hex')}`

beforeAll(async () => {
  receiver = await startReceiver()
  fleet = await startFleet()
  const policy = { min_isolation: 'none' as const }
  await fleet.createTenant('acme', { policy })
  await fleet.createTenant('capped', { policy, caps: { tenant_daily: 0 } })
  metricsPort = await freePort()
  const telemetry = { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, COFFERDAM_TRACE_SAMPLE_RATIO: '0' }
  worker = await fleet.startWorker({
    ...telemetry,
    COFFERDAM_BACKENDS: 'fake',
    COFFERDAM_LOG_LEVEL: 'debug',
    COFFERDAM_METRICS_PORT: String(metricsPort),
    COFFERDAM_WORKER_GROUP: 'doubles',
  })
  const logger = createLogger({
    service: 'cofferdam-api',
    level: 'debug',
    redact: (text) => text.replaceAll(TOKEN, '[redacted]'),
    destination: { write: (line: string) => void (apiLog += line) },
  })
  const env = {
    ...telemetry,
    REDIS_URL: fleet.redisUrl,
    DATABASE_URL: fleet.databaseUrl,
    COFFERDAM_DATA_DIR: fleet.dataDir,
    COFFERDAM_PORT: '0',
  }
  api = await runApi(loadConfig(env), { logger })
  adminKey = (await fleet.store.keys.create('admin', 'test')).key
  tenantKey = (await fleet.store.keys.create({ tenant_id: 'acme' }, 'test')).key
})
afterAll(async () => {
  await api?.close()
  await fleet?.[Symbol.asyncDispose]()
  await receiver?.close()
})

const request = (steps: object[], more: Partial<ExecutionRequestInput> = {}): ExecutionRequestInput => ({
  tenant_id: 'acme',
  agent_id: 'analyst',
  backend: 'fake',
  program: {
    type: 'script',
    language: 'python',
    source: steps.map((step) => JSON.stringify(step)).join('\n'),
  },
  ...more,
})

async function post(
  body: unknown,
  headers: Record<string, string> = {},
): Promise<{ id: string; ending: string }> {
  const response = await fetch(`${api.url}/v1/executions?wait=30s`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify(body),
  })
  const result = (await response.json()) as { execution_id: string; ending: string }
  return { id: result.execution_id, ending: result.ending }
}

async function traceOf(id: string, key = adminKey): Promise<ExecutionTrace | number> {
  const response = await fetch(`${api.url}/v1/executions/${id}/trace`, {
    headers: { authorization: `Bearer ${key}` },
  })
  return response.status === 200 ? executionTraceSchema.parse(await response.json()) : response.status
}

const ofTrace = (traceId: string) => receiver.spans.filter((span) => span.traceId === traceId)

it('sends the whole traces of failures and refusals at a share of 0, and no others', async () => {
  const wanted = ['11', '22', '33'].map((byte) => byte.repeat(16))
  const [good, failed, refused] = wanted as [string, string, string]
  const traceparent = (traceId: string) => ({ traceparent: `00-${traceId}-b7ad6b7169203331-01` })
  expect((await post(request([{ print: 'hi' }]), traceparent(good))).ending).toBe('ok')
  expect((await post(request([{ exit: 3 }]), traceparent(failed))).ending).toBe('error')
  expect((await post(request([], { tenant_id: 'capped' }), traceparent(refused))).ending).toBe('cap_exceeded')

  const names = (traceId: string) =>
    ofTrace(traceId)
      .map((span) => span.name)
      .toSorted()
  await expect
    .poll(() => names(failed), { timeout: 20_000 })
    .toEqual(
      [
        'POST /v1/executions',
        'send interactive',
        'process interactive',
        SPANS.admission,
        SPANS.acquire,
        SPANS.prepare,
        SPANS.run,
        SPANS.audit,
        SPANS.publish,
      ].toSorted(),
    )
  await expect
    .poll(() => names(refused), { timeout: 20_000 })
    .toEqual(
      [
        'POST /v1/executions',
        'send interactive',
        'process interactive',
        SPANS.admission,
        SPANS.audit,
        SPANS.publish,
      ].toSorted(),
    )
  expect(ofTrace(good)).toEqual([])
  // Both spans have the attributes of the messaging conventions. `process` also has the reason of the
  // failure.
  const [sent, processed] = ['send', 'process'].map((operation) =>
    ofTrace(failed).find(({ name }) => name === `${operation} interactive`),
  )
  for (const [span, operation] of [
    [sent, 'send'],
    [processed, 'process'],
  ] as const)
    expect(span?.attributes).toMatchObject({
      'messaging.operation.name': operation,
      'messaging.operation.type': operation,
      'messaging.destination.name': 'interactive',
    })
  expect(processed?.attributes).toMatchObject({ 'error.type': 'error', 'cofferdam.ending': 'error' })
})

it('sends and shows only names that the catalog has', async () => {
  expect(receiver.spans.length).toBeGreaterThan(10)
  for (const span of receiver.spans) {
    const name = span.name.startsWith('POST /') ? SPANS.server : span.name.replace(/ interactive$/, ' {lane}')
    const facts = SPAN_FACTS[name as keyof typeof SPAN_FACTS]
    expect(facts, name).toBeDefined()
    const known = [...facts.attributes, 'error.type'] as string[]
    expect(
      Object.keys(span.attributes).filter((key) => !known.includes(key)),
      name,
    ).toEqual([])
    const events = [...(facts.events ?? []), 'exception'] as string[]
    expect(
      span.events.map((event) => event.name).filter((event) => !events.includes(event)),
      name,
    ).toEqual([])
  }
  const names = Object.keys(METRIC_FACTS) as (keyof typeof METRIC_FACTS)[]
  const known = new Map(names.map((name) => [prometheusName(name), METRIC_FACTS[name]]))
  const texts = await Promise.all(
    [`http://127.0.0.1:${metricsPort}/metrics`, `${api.url}/metrics`].map(async (url) =>
      (await fetch(url)).text(),
    ),
  )
  const shown = texts.flatMap((text) =>
    [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].map(([, name, kind]) => [name, kind]),
  )
  expect(shown.length).toBeGreaterThan(15)
  for (const [name = '', kind] of shown)
    if (name !== 'target_info') expect([name, known.get(name)?.kind]).toEqual([name, kind])
  const labels = texts.flatMap((text) => [
    ...text.matchAll(/^(cofferdam_\w+?)(?:_bucket|_sum|_count)?\{([^}]*)\}/gm),
  ])
  for (const [, name = '', pairs = ''] of labels) {
    const facts = known.get(name)
    const allowed = ['le', ...(facts?.labels ?? []).map((label) => label.replaceAll('.', '_'))]
    for (const [, label = ''] of pairs.matchAll(/(\w+)="/g)) expect(allowed, name).toContain(label)
  }
})

it('shows what there is to do for the group that a worker names', async () => {
  const shown = async () => await (await fetch(`${api.url}/metrics`)).text()
  await expect
    .poll(shown, { timeout: 20_000 })
    .toMatch(/^cofferdam_group_depth\{cofferdam_worker_group="doubles",[^}]*cofferdam_state="waiting"\} 0$/m)
})

it('answers probes as ready while its heartbeats succeed', async () => {
  const probe = async (path: string) => (await fetch(`http://127.0.0.1:${metricsPort}${path}`)).status
  expect(await probe('/healthz')).toBe(200)
  await expect.poll(() => probe('/readyz'), { timeout: 20_000 }).toBe(200)
})

it('shows the waterfall of an execution to its tenant only, without a collector', async () => {
  const { id } = await post(request([{ print: 'x' }]))
  const other = await post(request([], { tenant_id: 'capped' }))
  const names = async () => {
    const trace = await traceOf(id, tenantKey)
    return typeof trace === 'number' ? [] : trace.spans.map((span) => `${span.service} ${span.name}`)
  }
  // Parents come before children. Siblings that began in the same millisecond may be in any order.
  await expect.poll(async () => (await names()).length, { timeout: 20_000 }).toBe(9)
  const shown = await names()
  expect(shown.slice(0, 3)).toEqual([
    'cofferdam-api POST /v1/executions',
    'cofferdam-api send interactive',
    'cofferdam-worker process interactive',
  ])
  const children = [SPANS.admission, SPANS.acquire, SPANS.prepare, SPANS.run, SPANS.audit, SPANS.publish]
  expect(shown.slice(3).toSorted()).toEqual(children.map((name) => `cofferdam-worker ${name}`).toSorted())
  expect(await traceOf(other.id, tenantKey)).toBe(404)
})

it('no secret appears in spans, metrics, logs or the waterfall', async () => {
  receiver.bodies.splice(0)
  const places: ExecutionRequestInput[] = [
    request([{ print: PRIVATE }, { print: TOKEN }, { exit: 1 }], {
      stdin: PRIVATE,
      env: { SECRET: TOKEN, MINE: PRIVATE },
    }),
    request([{ throw: `${TOKEN} ${PRIVATE}` }], {
      files: [{ path: 'a.txt', content: `${PRIVATE} ${TOKEN}` }],
    }),
    request([{ die: true }], { artifacts: ['*.txt'], metadata: undefined } as Partial<ExecutionRequestInput>),
  ]
  const ids: string[] = []
  for (const body of places) ids.push((await post(body)).id)
  // The API refuses this request, tells the caller what was wrong, and must not log it.
  await fetch(`${api.url}/v1/executions?x=${TOKEN}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${adminKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...places[0], [TOKEN]: PRIVATE }),
  })
  await fetch(`${api.url}/v1/${TOKEN}`, { headers: { authorization: `Bearer cfd_${'0'.repeat(40)}` } })
  const traces = () => Promise.all(ids.map((id) => traceOf(id)))
  await expect
    .poll(
      async () => (await traces()).every((trace) => typeof trace !== 'number' && trace.spans.length > 5),
      { timeout: 20_000 },
    )
    .toBe(true)
  await expect
    .poll(() => receiver.bodies.some(({ path }) => path === '/v1/traces'), { timeout: 20_000 })
    .toBe(true)

  const sinks: Record<string, string> = {
    otlp: receiver.bodies.map(({ body }) => body.toString('latin1')).join('\n'),
    waterfall: JSON.stringify(await traces()),
    'worker log': worker.log(),
    'api log': apiLog,
    'worker metrics': await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text(),
    'api metrics': await (await fetch(`${api.url}/metrics`)).text(),
  }
  for (const [name, text] of Object.entries(sinks)) {
    // An empty output would prove nothing.
    expect(text.length, name).toBeGreaterThan(50)
    expect(text.includes(PRIVATE), `${name} has the private text`).toBe(false)
    expect(text.includes(TOKEN.slice(0, 40)), `${name} has the token`).toBe(false)
  }
})
