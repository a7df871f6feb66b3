/**
 * Clients and doubles against what the four vendors publish: the vendor's own examples are read by our client, and fit the shapes that
 * the double is held to. Nothing of a double runs here; each double checks its own answers as it sends them.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import * as agentcore from '@aws-sdk/client-bedrock-agentcore'
import * as agentcoreControl from '@aws-sdk/client-bedrock-agentcore-control'
import { V1ContainerStatus, V1Pod, V1PodCondition, V1PodSpec, V1PodStatus } from '@kubernetes/client-node'
import type { z } from 'zod'
import { expect, it, onTestFinished } from 'vitest'
import { CONTROL_SHAPES, DATA_SHAPES } from '../../../infra/doubles/agentcore/published.ts'
import { AZURE } from '../../../infra/doubles/azure/published.ts'
import { E2B, E2B_ENVD, processEvent } from '../../../infra/doubles/e2b/published.ts'
import {
  CONTAINER_STATUS,
  POD_CONDITION,
  POD_SPEC,
  POD_STATUS,
} from '../../../infra/doubles/kubernetes/pod-schemas.ts'
import { checkSpec, checkStatus } from '../../../infra/doubles/kubernetes/schemas.ts'
import { createExecutions } from '../src/azure/dialects.ts'
import { createPoolApi } from '../src/azure/pool-api.ts'
import { createSessionsAtPool } from '../src/azure/sessions-at-pool.ts'
import { consumeStream } from '../src/agentcore/consume-stream.ts'
import { encodeMessage } from '../src/e2b/connect-messages.ts'
import { createControlApi } from '../src/e2b/control-api.ts'
import { createEnvd } from '../src/e2b/envd.ts'
import { claimSchema, podOf } from '../src/kubernetes/claim-state.ts'

interface Recorded {
  status: number
  body: unknown
}
type Answers = Record<string, Recorded | Recorded[]>

/** A server that says what is written down for `METHOD /path`, the last of several again and again. */
async function replay(answers: Answers): Promise<{ origin: string; bodies: unknown[] }> {
  const bodies: unknown[] = []
  async function textOf(request: IncomingMessage): Promise<string> {
    const parts: Buffer[] = []
    for await (const part of request as AsyncIterable<Buffer>) parts.push(part)
    return Buffer.concat(parts).toString()
  }
  function answer(request: IncomingMessage, response: ServerResponse, text: string): void {
    if (text.startsWith('{')) bodies.push(JSON.parse(text))
    const path = new URL(request.url ?? '/', 'http://vendor').pathname
    const found = [answers[`${request.method} ${path}`] ?? []].flat()
    const recorded = found[0]
    if (recorded === undefined) return void response.writeHead(500).end(`nothing is recorded for ${path}`)
    if (found.length > 1) answers[`${request.method} ${path}`] = found.slice(1)
    const { status, body } = recorded
    const isRaw = Buffer.isBuffer(body)
    response.writeHead(status, { 'Content-Type': isRaw ? 'application/connect+json' : 'application/json' })
    response.end(isRaw ? body : JSON.stringify(body))
  }
  const server = createServer(
    (request, response) => void textOf(request).then((text) => answer(request, response, text)),
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, bodies }
}

/**
 * Azure/azure-rest-api-specs (MIT), specification/app/data-plane/Microsoft.App.DynamicSessions/preview/<api-version>/examples, quoted
 * as they stand there; `CONTAINER_LIST` from MicrosoftDocs/azure-docs, articles/container-apps/sessions-custom-container.md.
 */
const LIST_SESSIONS = {
  sessions: [
    {
      identifier: 'testid1',
      expireAt: '2025-01-05T22:18:41.752Z',
      createdAt: '2025-01-21T03:38:05.232Z',
      lastAccessedAt: '2025-01-21T03:38:05.232Z',
      etag: '9334cb07-aafd-45a0-90bd-448080a91f57',
    },
  ],
}
const CONTAINER_LIST = {
  value: [
    {
      identifier: 'user-123',
      etag: 'a1b2c3d4',
      expiresAt: '2026-04-30T14:30:00Z',
      createdAt: '2026-04-30T13:30:00Z',
      lastAccessedAt: '2026-04-30T14:29:00Z',
    },
  ],
  count: 1,
  nextLink: 'https://my-pool.env-id.westus2.azurecontainerapps.io/.management/listSessions?skip=300',
}
const executed = (executionType: string, more: object): object => ({
  id: 'testExecutionId',
  identifier: 'testSessionIdentifier',
  executionType,
  ...more,
})
const done = (executionResult: unknown, stdout = ''): object => ({
  status: 'Succeeded',
  result: { stdout, stderr: '', executionResult, executionTimeInMilliseconds: 4 },
})
const EXECUTE_SYNC = executed('Synchronous', done('', '63/n'))
const EXECUTE_NAN = executed('Synchronous', done('nan'))
const EXECUTE_NONE = executed('Synchronous', done(null))
const EXECUTE_RUNNING = executed('Asynchronous', { status: 'Running' })
const FILES_LIST = {
  value: [
    {
      name: 'testfile.yaml',
      directory: 'test-sub-directory',
      type: 'File',
      contentType: 'application/yaml',
      sizeInBytes: 4,
      lastModifiedAt: '2024-05-29T00:00:00.000Z',
    },
    {
      name: 'test-sub-directory',
      directory: '',
      type: 'Directory',
      lastModifiedAt: '2024-04-29T00:00:00.000Z',
    },
  ],
  nextLink: null,
}

const pool = (endpoint: string, kind: 'interpreter' | 'container') =>
  createPoolApi({
    endpoint,
    kind,
    tokens: { get: async () => 'token', refused: () => undefined, answeredBy: null },
    timeoutMs: 5000,
    roleGrantedAtMs: null,
  })

it('Azure’s examples fit the shapes that its double is held to', () => {
  AZURE.checkAnswer('GET', '/listSessions', 200, LIST_SESSIONS)
  AZURE.checkAnswer('GET', '/session', 200, LIST_SESSIONS.sessions[0])
  AZURE.checkAnswer('POST', '/.management/listSessions', 200, CONTAINER_LIST)
  for (const answer of [EXECUTE_SYNC, EXECUTE_NAN, EXECUTE_NONE])
    AZURE.checkAnswer('POST', '/executions', 200, answer)
  AZURE.checkAnswer('POST', '/executions', 202, EXECUTE_RUNNING)
  AZURE.checkAnswer('GET', '/files', 200, FILES_LIST)
  AZURE.checkAnswer('POST', '/files', 200, { ...FILES_LIST.value[0], directory: undefined })
  expect(() => AZURE.checkAnswer('GET', '/listSessions', 200, CONTAINER_LIST)).toThrow('not as published')
})

it('reads the sessions of Azure’s interpreter and container pools as Microsoft writes them', async () => {
  const { origin } = await replay({
    'GET /listSessions': { status: 200, body: LIST_SESSIONS },
    'POST /.management/listSessions': [
      { status: 200, body: CONTAINER_LIST },
      { status: 200, body: { value: [], count: 0, nextLink: null } },
    ],
  })
  const listed = (kind: 'interpreter' | 'container') => createSessionsAtPool(pool(origin, kind), kind).list()
  expect([await listed('interpreter'), await listed('container')]).toEqual([['testid1'], ['user-123']])
})

it.each([
  ['at once', [EXECUTE_SYNC], '63/n'],
  ['whose value is NaN', [EXECUTE_NAN], ''],
  ['whose value is None', [EXECUTE_NONE], ''],
  ['later', [EXECUTE_RUNNING, EXECUTE_SYNC], '63/n'],
])('reads what Microsoft writes of an execution that ended %s', async (_words, answers, stdout) => {
  const [first, last] = [answers[0], answers.at(-1)]
  const { origin, bodies } = await replay({
    'POST /executions': { status: 200, body: first },
    'GET /executions/testExecutionId': { status: 200, body: last },
  })
  const config = { interpreter: 'python', dialect: 'auto', api_timeout_ms: 5000 } as const
  const executions = createExecutions(pool(origin, 'interpreter'), config)
  const ran = await executions.run('testSessionIdentifier', ['true'], { seconds: 1, isRepeatable: false })
  expect(ran).toEqual({ succeeded: true, stdout, stderr: '' })
  expect(AZURE.faultOfRequest('POST', '/executions', bodies[0])).toBeNull()
})

/** e2b-dev/E2B (MIT), spec/envd/envd.yaml: the examples of `UploadSuccess` and `InvalidUser`. */
const UPLOADED = [{ path: '/home/user/hello.txt', name: 'hello.txt', type: 'file' }]
const UNKNOWN_USER = {
  message: "error looking up user 'nonexistent': user: unknown user nonexistent",
  code: 401,
}
/** Messages that npm `e2b` 2.51.0 takes for the output and the end of `echo hi`. */
const ECHO_HI = [
  { event: { start: { pid: 123 } } },
  { event: { data: { stdout: 'aGkK' } } },
  { event: { end: { exitCode: 0, exited: true, status: 'exit status 0' } } },
]

it('asks E2B as it publishes, and reads what it writes', async () => {
  E2B_ENVD.checkAnswer('POST', '/files', 200, UPLOADED)
  E2B_ENVD.checkAnswer('POST', '/files', 401, UNKNOWN_USER)
  for (const event of ECHO_HI) expect(processEvent.safeParse(event).success).toBe(true)
  const last = encodeMessage({})
  last.writeUInt8(2)
  const created = { templateID: 'base', sandboxID: 'abc', clientID: 'c', envdVersion: '0.6.13', domain: null }
  E2B.checkAnswer('POST', '/v2/sandboxes', 201, created)
  const { origin, bodies } = await replay({
    'POST /v2/sandboxes': { status: 201, body: created },
    'POST /files': [
      { status: 200, body: UPLOADED },
      { status: 401, body: UNKNOWN_USER },
    ],
    'POST /process.Process/Start': {
      status: 200,
      body: Buffer.concat([...ECHO_HI.map((event) => encodeMessage(event)), last]),
    },
  })
  const api = createControlApi({ origin, apiKey: async () => 'e2b_0', timeoutMs: 5000 })
  const { signal } = new AbortController()
  expect(await api.create({ template: 'base', lifeMs: 1000, metadata: { a: 'b' } }, signal)).toMatchObject({
    sandboxID: 'abc',
  })
  expect(E2B.faultOfRequest('POST', '/v2/sandboxes', bodies[0])).toBeNull()
  const envd = createEnvd({ origin, headers: {} }, 5000)
  await envd.upload([{ path: '/home/user/hello.txt', bytes: Buffer.from('hi') }], signal)
  await expect(envd.upload([{ path: '/x', bytes: Buffer.from('hi') }], signal)).rejects.toMatchObject({
    details: { said: expect.stringContaining('unknown user') as string },
  })
  const { readable } = await envd.start(['/bin/echo', 'hi'], 'tag', signal)
  expect(String(await new Response(readable as unknown as ReadableStream).text())).toBe('hi\n')
})

/** A structure of the model: its members' names, of which the first `required` must be there. */
type Modelled = readonly [number, string, string, unknown, readonly string[], unknown, number?]

it.each([
  ...Object.entries(DATA_SHAPES).map((shape) => ['data', ...shape, agentcore] as const),
  ...Object.entries(CONTROL_SHAPES).map((shape) => ['control', ...shape, agentcoreControl] as const),
])('AgentCore’s double has the members of the model of the %s plane’s %s', (_plane, name, shape, sdk) => {
  const model = (sdk as unknown as Record<string, Modelled>)[`${name}$`]
  const [, , , , members = [], , required = 0] = model ?? []
  const fields = Object.entries((shape as z.ZodObject).shape) as [string, z.ZodType][]
  expect(members, name).toEqual(expect.arrayContaining(fields.map(([field]) => field)))
  const mandatory = fields.filter(([, field]) => !field.safeParse(undefined).success)
  expect(mandatory.map(([field]) => field).toSorted(), name).toEqual(members.slice(0, required).toSorted())
})

it('reads a result as AgentCore was seen to send it', async () => {
  // awslabs/open-agentic-platform (Apache-2.0), spikes/agentcore-code-interpreter/FINDINGS.md: getTask of a task that has ended.
  const structuredContent = {
    taskStatus: 'completed' as const,
    stdout: 'finished-at-13\r\n',
    stderr: '',
    exitCode: 0,
    executionTime: 20.1,
  }
  expect(DATA_SHAPES.ToolResultStructuredContent.safeParse(structuredContent).success).toBe(true)
  async function* events() {
    yield { result: { content: [], structuredContent } }
  }
  const { stdout, exitCode, taskStatus } = await consumeStream(events())
  expect([stdout, exitCode, taskStatus]).toEqual(['finished-at-13\r\n', 0, 'completed'])
})

/** kubernetes-sigs/agent-sandbox (Apache-2.0) @2fd412d5, examples/kata-aks, without its comments; the pod's spec is cut to one container. */
const EXAMPLES: [string, object][] = [
  ['SandboxClaim', { warmPoolRef: { name: 'kata-aks-warmpool' } }],
  [
    'SandboxTemplate',
    {
      envVarsInjectionPolicy: 'Allowed',
      service: true,
      podTemplate: {
        spec: {
          runtimeClassName: 'kata-vm-isolation',
          containers: [{ name: 'agent', image: '${AGENT_IMAGE}', imagePullPolicy: 'Always' }],
        },
      },
      networkPolicyManagement: 'Managed',
      networkPolicy: { egress: [{ ports: [{ protocol: 'TCP', port: 443 }] }] },
    },
  ],
  [
    'SandboxWarmPool',
    {
      replicas: 3,
      sandboxTemplateRef: { name: 'kata-aks-template' },
      updateStrategy: { type: 'OnReplenish' },
    },
  ],
]

it.each(EXAMPLES)('Agent Sandbox’s example of a %s fits its double’s schema', (kind, spec) => {
  expect(checkSpec(kind, spec)).toMatchObject({ causes: [], unknown: [] })
})

it('reads a claim’s status with every field that its CRD has', () => {
  // helm/crds/extensions.agents.x-k8s.io_sandboxclaims.yaml.
  const status = {
    conditions: [
      {
        type: 'Ready',
        status: 'True',
        reason: 'DependenciesReady',
        message: 'Sandbox is ready',
        observedGeneration: 1,
        lastTransitionTime: '2026-08-22T00:27:14Z',
      },
    ],
    sandbox: { name: 'kata-aks-warmpool-x7k2p', podIPs: ['10.244.1.7', 'fd00::7'] },
  }
  expect(checkStatus('SandboxClaim', status)).toMatchObject({ causes: [], unknown: [] })
  const claim = claimSchema.parse({ metadata: { name: 'my-aks-agent' }, status })
  expect(podOf(claim)).toEqual({ claim: 'my-aks-agent', name: 'kata-aks-warmpool-x7k2p', ip: '10.244.1.7' })
})

/** What the models of Kubernetes' OpenAPI description call the types of our schemas. */
const PUBLISHED_TYPES: Record<string, RegExp> = {
  string: /^(string|Date)$/,
  integer: /^number$/,
  boolean: /^boolean$/,
  array: /^Array</,
  object: /^V1/,
}

it.each([
  ['PodSpec', POD_SPEC, V1PodSpec],
  ['PodStatus', POD_STATUS, V1PodStatus],
  ['PodCondition', POD_CONDITION, V1PodCondition],
  ['ContainerStatus', CONTAINER_STATUS, V1ContainerStatus],
] as const)(
  'Kubernetes’ double writes fields of a %s that its OpenAPI description has',
  (_name, schema, model) => {
    const published = new Map(model.getAttributeTypeMap().map(({ baseName, type }) => [baseName, type]))
    const fields = Object.entries(
      (schema as { properties: Record<string, { type: string; format?: string }> }).properties,
    )
    expect(fields.length).toBeGreaterThan(5)
    for (const [field, { type, format }] of fields) {
      expect(published.get(field), field).toMatch(PUBLISHED_TYPES[type] ?? /never/)
      expect(format === 'date-time', field).toBe(published.get(field) === 'Date')
    }
  },
)

it('Kubernetes’ double has pods with the parts that its OpenAPI description has', () => {
  expect(V1Pod.getAttributeTypeMap().map(({ baseName }) => baseName)).toEqual(
    expect.arrayContaining(['apiVersion', 'kind', 'metadata', 'spec', 'status']),
  )
  const unpublished = { phase: 'Running', ready: true }
  expect(checkStatus('Pod', unpublished)).toMatchObject({ unknown: ['status.ready'] })
  expect(checkStatus('Pod', { phase: 'Ready' }).causes).toHaveLength(1)
})
