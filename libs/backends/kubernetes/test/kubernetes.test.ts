/** Tests of the Kubernetes backend alone: claims, watches, addresses. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { inspect } from 'node:util'
import {
  DEFAULT_LIMITS,
  type Backend,
  type Program,
  type Sandbox,
  type SandboxSpec,
} from '@cofferdam/contract'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, afterEach, beforeAll, expect, it, vi } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { createKubernetesBackend } from '../src/index.ts'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const TOKEN = 'canary-token-4711'

needs('bwrap').describe('kubernetes', () => {
  const folder = temporaryFolder('kubernetes')
  const tokenFile = join(folder, 'token')
  let double: KubernetesDouble
  let backend: Backend
  const logged: unknown[] = []

  beforeAll(async () => {
    double = await startKubernetesDouble({ token: TOKEN })
    writeFileSync(tokenFile, `${TOKEN}\n`)
    const log = (fields: object, message: string): void => void logged.push([fields, message])
    const logger = { debug: log, info: log, warn: log }
    backend = createKubernetesBackend({ api_server: double.origin, token_file: tokenFile }, { logger })
  })
  afterEach(() => {
    expect(double.claims(), 'claims that are left').toEqual([])
  })
  afterAll(async () => {
    expect(inspect(logged, { depth: Infinity, maxStringLength: Infinity }), 'the log').not.toContain(TOKEN)
    await backend[Symbol.asyncDispose]()
    await double[Symbol.asyncDispose]()
  })

  const spec = (program: Program): SandboxSpec => jobSpec('4be24be24be2', program)
  const open = (program: Program): Promise<Sandbox> =>
    backend.open(spec(program), AbortSignal.timeout(30_000))
  const works = async (): Promise<void> => {
    const program = python('print(6 * 7)')
    await using sandbox = await open(program)
    expect(await printed(sandbox, program)).toBe('42\n')
  }

  it('adopts a spare pod, and starts a new one if there is none', async () => {
    const program = python('import socket; print(socket.gethostname())')
    const sandboxes = await Promise.all([open(program), open(program), open(program)])
    const names = await Promise.all(sandboxes.map((sandbox) => printed(sandbox, program)))
    expect(new Set(names).size).toBe(3)
    await Promise.all(sandboxes.map((sandbox) => sandbox[Symbol.asyncDispose]()))
  })

  it('follows a claim that loses its spare to another, even if its watch gets 410 Gone', async () => {
    double.fault({ lose_adoption: 1, gone_watches: 2 })
    await works()
    double.compact()
    await works()
  })

  it('uses its own claim if the answer to its creation was lost', async () => {
    double.fault({ drop_creates: 1 })
    await works()
  })

  it('connects to the claim’s final pod if the claim lost its first one early', async () => {
    double.fault({ stale_pods: 1 })
    await works()
  })

  it.each([
    ['is another pod', '{"error":"this is another pod"}\n'],
    ['closes the connection', ''],
    ['says nothing that a pod says', 'hello\n'],
  ])('waits for the claim’s next pod if a stranger %s, and sends it nothing', async (_what, answer) => {
    const stranger = await double.misplaceClaims(answer)
    const program = python('print("canary-source")')
    const opened = open(program)
    try {
      await Promise.race([
        opened,
        // A second connection proves that the backend waits for another pod and tries again.
        vi.waitFor(() => expect(stranger.heard.length).toBeGreaterThan(1), { timeout: 20_000, interval: 5 }),
      ])
    } finally {
      stranger.lose()
    }
    await using sandbox = await opened
    expect(await printed(sandbox, program)).toBe('canary-source\n')
    expect(stranger.heard.join('')).not.toContain('canary-source')
  })

  it('opens a sandbox although a replaced token was refused once for a create and a patch', async () => {
    double.fault({ unauthorized_creates: 1 })
    await works()
    // The double creates the claim but drops its answer, so the worker takes over the existing claim by a
    // patch.
    double.fault({ drop_creates: 1, unauthorized_patches: 1 })
    await works()
  })

  it('reads null as absent, in answers and in a watch', async () => {
    double.fault({ null_answers: Infinity, null_events: Infinity })
    try {
      await works()
    } finally {
      double.fault({ null_answers: 0, null_events: 0 })
    }
  })

  it('keeps the base path of its API server', async () => {
    await using gateway = await startKubernetesDouble({ base: '/k8s/clusters/c-1', replicas: 0 })
    for (const api_server of [gateway.origin, `${gateway.origin}/`]) {
      await using behind = createKubernetesBackend({ api_server, token_file: null })
      expect(await behind.probe(AbortSignal.timeout(20_000))).toMatchObject({ ok: true })
    }
  })

  it('waits for a briefly busy API server, and leaves nothing if deletions are busy', async () => {
    double.fault({ throttle_creates: 1, busy_deletes: 2 })
    await works()
    double.fault({ drop_deletes: 1 })
    await works()
  })

  it('gives up at once for a permanent reason, and leaves no claim', async () => {
    double.fault({ refuse_claims: 1, refuse_reason: 'TemplateNotFound' })
    await expect(open(python('1'))).rejects.toMatchObject({
      code: 'sandbox_open_failed',
      message: expect.stringContaining('TemplateNotFound') as string,
    })
  })

  it('deletes a claim that appears late, in the janitor’s next round', async () => {
    double.fault({ late_creates: 1 })
    await works()
    double.carryOut()
    expect(double.claims()).toHaveLength(1)
    await backend.owners()
    expect(double.claims()).toEqual([])
  })

  it('repeats a refused deletion in the janitor’s next round', async () => {
    const settings = { api_server: double.origin, token_file: tokenFile, api_timeout_ms: 1000 }
    await using impatient = createKubernetesBackend(settings)
    const sandbox = await impatient.open(spec(python('1')), AbortSignal.timeout(30_000))
    double.fault({ busy_deletes: Infinity })
    await expect(sandbox[Symbol.asyncDispose]()).rejects.toMatchObject({ code: 'backend_unavailable' })
    double.fault({ busy_deletes: 0 })
    await vi.waitFor(async () => {
      await impatient.owners()
      expect(double.claims()).toEqual([])
    }, 20_000)
  })

  it('reports a busy cluster as full, and deletes no claim that it never created', async () => {
    const before = double.requests.length
    double.fault({ throttle_creates: Infinity })
    await expect(open(python('1'))).rejects.toMatchObject({
      code: 'backend_unavailable',
      details: { full: true },
    })
    double.fault({ throttle_creates: 0 })
    expect(double.requests.slice(before).filter((path) => path.includes('/sandboxclaims/'))).toEqual([])
  })

  it('reports a pod as lost if it dies while its program runs', async () => {
    const program = python("import time; print('up', flush=True); time.sleep(60)")
    await using sandbox = await open(program)
    const lost = expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
    await double.killPod(String(sandbox.ref.handle['claim']))
    await lost
  })

  it('reports a pod as lost if its claim has another pod', async () => {
    const program = python("import time; print('up', flush=True); time.sleep(60)")
    await using sandbox = await open(program)
    const claim = String(sandbox.ref.handle['claim'])
    const up = Promise.withResolvers<undefined>()
    const running = sandbox.run(program, {
      onOutput: () => up.resolve(undefined),
      maxOutputBytes: { stdout: 100, stderr: 100 },
      signal: AbortSignal.timeout(40_000),
    })
    const lost = expect(running).rejects.toMatchObject({ code: 'sandbox_lost' })
    await up.promise
    await double.movePod(claim)
    await lost
    // The program ended with its connection, although no claim of ours names that pod any more.
    await vi.waitFor(() => expect(double.running().map((pod) => pod.claim)).not.toContain('another'), 20_000)
  })

  it('reports a deleted pod as lost although its Sandbox gets another with the same name', async () => {
    const program = python("import time; print('up', flush=True); time.sleep(60)")
    await using sandbox = await open(program)
    const claim = String(sandbox.ref.handle['claim'])
    const lost = expect(printed(sandbox, program)).rejects.toMatchObject({ code: 'sandbox_lost' })
    const pod = double.running().find((one) => one.claim === claim)?.pod ?? ''
    await fetch(`${double.origin}/api/v1/namespaces/cofferdam-sandboxes/pods/${pod}`, {
      method: 'DELETE',
      headers: { Authorization: `Bearer ${TOKEN}` },
    })
    await lost
    await vi.waitFor(() => expect(double.running()).toContainEqual({ pod, claim }), 20_000)
  })

  it('has no open watch without a claim', async () => {
    await works()
    await vi.waitFor(() => expect(double.watches().open).toBe(0), 20_000)
  })

  it('sets the claim’s shutdown time in the cluster soon after the hard deadline', async () => {
    await using _sandbox = await open(python('1'))
    const [claim] = double.claims()
    const leftMs = Date.parse(claim?.shutdownTime ?? '') - Date.now()
    expect(leftMs).toBeGreaterThan(DEFAULT_LIMITS.hard_timeout_ms)
    expect(leftMs).toBeLessThan(DEFAULT_LIMITS.hard_timeout_ms + 60_000)
  })

  it('lets another worker sweep an owner’s claims and pods', async () => {
    const wish = spec(python('1'))
    await using sandbox = await backend.open(wish, AbortSignal.timeout(30_000))
    const { claim } = sandbox.ref.handle
    const pods = double.running().filter((pod) => pod.claim === claim)
    expect(pods.map(({ pod }) => `${claim}/${pod}`)).toEqual([sandbox.ref.vendorRef])
    await using other = createKubernetesBackend({ api_server: double.origin, token_file: tokenFile })
    expect(await other.owners()).toContain(wish.owner)
    expect(await other.sweep(wish.owner)).toEqual({ destroyed: 1 })
    expect(double.running().filter((pod) => pod.claim === claim)).toEqual([])
    expect(await other.kill(sandbox.ref)).toBe(false)
  })

  it('reports the rights that it needs, and never shows its token', async () => {
    const program = python('import os; print(dict(os.environ))')
    await using sandbox = await open(program)
    expect((await printed(sandbox, program)) + JSON.stringify(sandbox.ref)).not.toContain(TOKEN)
    writeFileSync(tokenFile, 'another-secret-token')
    const probed = await backend.probe(AbortSignal.timeout(5000))
    writeFileSync(tokenFile, TOKEN)
    expect(probed).toMatchObject({ ok: false, why: expect.stringContaining('401') as string })
    expect(JSON.stringify(probed)).not.toContain('another-secret-token')
    await vi.waitFor(
      async () => expect((await backend.probe(AbortSignal.timeout(5000))).ok).toBe(true),
      20_000,
    )
  })
})
