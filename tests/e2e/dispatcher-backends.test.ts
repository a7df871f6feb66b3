/** A Managed Agents session on each kind of sandbox, and its traces. */
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startE2bDouble, type E2bDouble } from '@cofferdam/backend-e2b/double'
import { startKubernetesDouble, type KubernetesDouble } from '@cofferdam/backend-kubernetes/double'
import { NODE } from '@cofferdam/backend-remote/double'
import { SURROUNDINGS } from '@cofferdam/contract'
import { isLongTier, needs } from '@cofferdam/embedded/needs'
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest'
import {
  startManagedAgents,
  type ManagedAgentsDouble,
} from '../../infra/doubles/managed-agents/managed-agents-double.ts'
import { startReceiver, type ReceivedSpan, type Receiver } from '../../libs/telemetry/test/otlp-receiver.ts'
import { startDispatcher } from '../dispatcher.ts'
import { startFleet, type Fleet } from '../fleet.ts'

type Session = ReturnType<ManagedAgentsDouble['createSession']>

let fleet: Fleet
let double: ManagedAgentsDouble
let receiver: Receiver
beforeAll(async () => {
  ;[fleet, receiver] = await Promise.all([startFleet(), startReceiver()])
  await fleet.createTenant('acme', {
    policy: { min_isolation: 'none' },
    caps: { tenant_daily: 10_000, agent_hourly: 10_000 },
  })
})
beforeEach(async () => {
  double = await startManagedAgents()
})
afterEach(() => double.close())
afterAll(async () => {
  await fleet?.[Symbol.asyncDispose]()
  await receiver?.close()
})

const bash = (command: string) => ({ tool_use: { name: 'bash', input: { command } } })
const texts = ({ results }: Session): string[] =>
  [...results.values()].map(({ result }) =>
    (result?.content ?? []).map((block) => (block.type === 'text' ? block.text : '')).join(''),
  )
const traces = (): Record<string, string> => ({
  OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
  COFFERDAM_TRACE_SAMPLE_RATIO: '1',
})

/** A worker with these backends only. */
async function runWorkerWith(backends: Record<string, unknown>) {
  const file = join(await mkdtemp(join(fleet.dataDir, 'worker-')), 'cofferdam.config.yaml')
  // JSON is YAML.
  await writeFile(file, JSON.stringify({ backends }))
  return await fleet.runWorker({
    COFFERDAM_CONFIG: file,
    COFFERDAM_BACKENDS: Object.keys(backends).join(','),
    COFFERDAM_SLOTS: '2',
  })
}

/**
 * Serves one session whose tools need what a real agent's do: a working directory and a variable that outlive
 * a call, and files.
 */
async function serveSession(backend: string, shell: 'kept' | 'restored', jobs: boolean): Promise<string[]> {
  const session = double.createSession({
    script: [
      bash(`mkdir -p a && cd a && export COLOUR=green${jobs ? ' && (sleep 300 & echo $! > job)' : ''}`),
      bash(`echo "\${PWD##*/} $COLOUR"${jobs ? '; kill -0 $(cat job) && echo alive' : ''}`),
      { tool_use: { name: 'write', input: { file_path: 'b/one.txt', content: 'one\ntwo\n' } } },
      {
        tool_use: { name: 'edit', input: { file_path: 'b/one.txt', old_string: 'two', new_string: '2' } },
      },
      { tool_use: { name: 'read', input: { file_path: 'b/one.txt' } } },
      { tool_use: { name: 'glob', input: { pattern: '**/one.txt' } } },
      { tool_use: { name: 'grep', input: { pattern: 'one', path: 'b' } } },
      bash('echo 42 > /mnt/session/outputs/sum.txt; exit 3'),
      { idle: 'end_turn' },
    ],
  })
  const dispatcher = await startDispatcher(fleet, double, { environment: { backend, shell }, env: traces() })
  const isAnswered = ({ result }: { result: unknown }): boolean => result !== null
  // A first sandbox of gVisor takes 15 s on a slow machine that runs other tests beside this one.
  await session.until('answers', () => [...session.results.values()].filter(isAnswered).length === 8, 120_000)
  await session.untilIdle()
  expect(await dispatcher.stop()).toBe(0)
  const { rows } = await fleet.store.listAudit({ tenantId: 'acme', limit: 50 })
  const own = rows.filter((row) => row.run_id === session.id)
  expect(new Set(own.map((row) => row.backend))).toEqual(new Set([backend]))
  expect([...session.results.values()].map(({ answers }) => answers)).toEqual(Array(8).fill(1))
  return texts(session)
}

const answers = (jobs: boolean): string[] => [
  '(no output)',
  jobs ? 'a green\nalive' : 'a green',
  'wrote 8 bytes to b/one.txt',
  'edited b/one.txt (1 replacement(s))',
  'one\n2\n',
  `${SURROUNDINGS.workFolder}/b/one.txt`,
  `${SURROUNDINGS.workFolder}/b/one.txt:1:one`,
]

needs('docker').it('a session runs in a container, and its jobs live on', async () => {
  const worker = await runWorkerWith({ docker: {} })
  const told = await serveSession('docker', 'kept', true)
  expect(told.slice(0, 7)).toEqual(answers(true))
  await worker.close()
})

needs('gvisor').inLongTier('a session runs in gVisor with a restored shell', async () => {
  const worker = await runWorkerWith({ gvisor: {} })
  const told = await serveSession('gvisor', 'restored', false)
  expect(told.slice(0, 7)).toEqual(answers(false))
  await worker.close()
})

const atVendor = needs('bwrap')
if (isLongTier())
  atVendor.describe('at a vendor', () => {
    let e2b: E2bDouble
    let cluster: KubernetesDouble
    beforeAll(async () => {
      ;[e2b, cluster] = await Promise.all([startE2bDouble(), startKubernetesDouble({ replicas: 1 })])
    })
    afterAll(() => Promise.all([e2b, cluster].map((one) => one?.[Symbol.asyncDispose]())))
    const secretFile = async (text: string): Promise<string> => {
      const file = join(await mkdtemp(join(fleet.dataDir, 'secret-')), 'secret')
      await writeFile(file, text)
      return file
    }

    it('a session runs in a pod, and its jobs live on', async () => {
      const session_secret_file = await secretFile('of-the-whole-fleet-and-long-enough')
      const worker = await runWorkerWith({
        kubernetes: { api_server: cluster.origin, token_file: null, session_secret_file },
      })
      const told = await serveSession('kubernetes', 'kept', true)
      expect(told.slice(0, 7)).toEqual(answers(true))
      await worker.close()
    })

    it('a session runs at E2B with a restored shell', async () => {
      const api_key_file = await secretFile(e2b.apiKey)
      const worker = await runWorkerWith({
        e2b: { api_key_file, api_url: e2b.origin, sandbox_url: e2b.origin, node: NODE },
      })
      const told = await serveSession('e2b', 'restored', false)
      expect(told.slice(0, 7)).toEqual(answers(false))
      await worker.close()
    })
  })

needs('process-namespaces', 'cgroups').it(
  'the spans of a call are children of the SDK’s span of the same tool use, and hold no command',
  async () => {
    const worker = await fleet.startWorker({
      COFFERDAM_BACKENDS: 'process',
      COFFERDAM_SLOTS: '2',
      ...traces(),
    })
    await serveSession('process', 'kept', true)
    expect(await worker.stop()).toBe(0)
    const byId = new Map(receiver.spans.map((span) => [span.spanId, span]))
    const ancestors = (span: ReceivedSpan): string[] => {
      const parent = byId.get(span.parentSpanId)
      return parent === undefined ? [] : [parent.name, ...ancestors(parent)]
    }
    const ofCalls = receiver.spans
      .filter(({ name }) => name === 'process interactive')
      .map((span) => ancestors(span).find((name) => name.startsWith('anthropic.tool_use')))
      .filter((name) => name !== undefined)
    expect(ofCalls.toSorted()).toEqual(
      ['bash', 'bash', 'bash', 'edit', 'glob', 'grep', 'read', 'write'].map(
        (tool) => `anthropic.tool_use ${tool}`,
      ),
    )
    for (const { body } of receiver.bodies) expect(body.includes('COLOUR=green')).toBe(false)
  },
)
