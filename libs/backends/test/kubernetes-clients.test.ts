/** The double of Kubernetes by clients that know nothing of it: kubectl, and the project's own client for Node. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { CustomObjectsApi, KubeConfig, Watch } from '@kubernetes/client-node'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { missing } from '../../../infra/doubles/jail.ts'
import {
  startKubernetesDouble,
  type KubernetesDouble,
} from '../../../infra/doubles/kubernetes/kubernetes-double.ts'

const run = promisify(execFile)
const why = missing()
const isRequired = process.env['COFFERDAM_REQUIRE'] === 'all'
const hasKubectl = await run('kubectl', ['version', '--client']).then(
  () => true,
  () => false,
)
const NAMESPACE = 'cofferdam-sandboxes'
const CLAIMS = {
  group: 'extensions.agents.x-k8s.io',
  version: 'v1beta1',
  namespace: NAMESPACE,
  plural: 'sandboxclaims',
}
const claim = (name: string, labels: Record<string, string> = {}) => ({
  apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
  kind: 'SandboxClaim',
  metadata: { name, labels },
  spec: { warmPoolRef: { name: 'cofferdam' } },
})

describe.skipIf(why !== null && !isRequired)(`clients of Kubernetes ${why ?? ''}`, () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-kubernetes-clients-'))
  let double: KubernetesDouble
  beforeAll(async () => {
    double = await startKubernetesDouble()
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
    rmSync(folder, { recursive: true })
  })

  describe.skipIf(!hasKubectl && !isRequired)(hasKubectl ? 'kubectl' : 'kubectl is not on PATH', () => {
    /** A file of its own instead of the user's, so that nobody's cluster is ever asked. */
    const config = join(folder, 'config')
    const flags = ['--kubeconfig', config, '--cache-dir', join(folder, 'cache')]
    const kubectl = async (...args: string[]): Promise<string> =>
      (await run('kubectl', [...flags, ...args])).stdout
    const file = (name: string, labels: Record<string, string>): string => {
      const path = join(folder, `${name}.json`)
      writeFileSync(path, JSON.stringify(claim(name, labels)))
      return path
    }

    beforeAll(() => {
      const cluster = { name: 'double', cluster: { server: double.origin } }
      const context = { name: 'double', context: { cluster: 'double', user: '', namespace: NAMESPACE } }
      const contexts = {
        clusters: [cluster],
        users: [],
        contexts: [context],
        'current-context': 'double',
      }
      writeFileSync(config, JSON.stringify({ apiVersion: 'v1', kind: 'Config', ...contexts }))
    })

    it('finds the kinds of Agent Sandbox', async () => {
      const kinds = await kubectl('api-resources', '--no-headers')
      expect(kinds.match(/\b(Sandbox\w*)$/gm)).toEqual([
        'Sandbox',
        'SandboxClaim',
        'SandboxTemplate',
        'SandboxWarmPool',
      ])
    })

    it('applies a claim, waits for its pod, applies it again changed, and deletes it with its pod', async () => {
      expect(await kubectl('apply', '-f', file('applied', { team: 'a' }))).toMatch(/applied created/)
      await kubectl('wait', '--for=condition=Ready', 'sandboxclaim/applied', '--timeout=60s')
      expect(double.running()).toContainEqual({ pod: expect.any(String), claim: 'applied' })
      expect(await kubectl('apply', '-f', file('applied', { team: 'b' }))).toMatch(/applied configured/)
      expect(await kubectl('get', 'sandboxclaims', '-A', '-l', 'team=b', '-o', 'name')).toMatch(/\/applied$/m)
      expect(await kubectl('get', 'sandboxclaims', '-l', 'team=a', '-o', 'name')).toBe('')
      await kubectl('delete', '-f', file('applied', {}), '--timeout=60s')
      expect(double.running()).not.toContainEqual({ pod: expect.any(String), claim: 'applied' })
      await expect(kubectl('get', 'sandboxclaim', 'applied')).rejects.toThrow(/not found/)
    })

    it('sees a change while it watches', async () => {
      await kubectl('create', '-f', file('watched', {}))
      const seen = 'jsonpath={.metadata.name} {.metadata.labels.seen}{"\\n"}'
      const args = [
        ...flags,
        'get',
        'sandboxclaims',
        '-w',
        '-o',
        seen,
        '--field-selector',
        'metadata.name=watched',
      ]
      const watching = spawn('kubectl', args, { stdio: ['ignore', 'pipe', 'inherit'] })
      const ended = once(watching, 'exit')
      try {
        const lines = createInterface({ input: watching.stdout })[Symbol.asyncIterator]()
        expect((await lines.next()).value).toBe('watched ')
        await kubectl('label', 'sandboxclaim', 'watched', 'seen=yes')
        let line: unknown
        do line = (await lines.next()).value
        while (line === 'watched ')
        expect(line).toBe('watched yes')
      } finally {
        watching.kill()
        await ended
        await kubectl('delete', 'sandboxclaim', 'watched')
      }
    })

    it('scales a warm pool', async () => {
      expect(await kubectl('scale', 'sandboxwarmpool', 'cofferdam', '--replicas=2')).toMatch(/scaled/)
      const pool = await kubectl('get', 'sandboxwarmpool', 'cofferdam', '-o', 'jsonpath={.spec.replicas}')
      expect(pool).toBe('2')
    })
  })

  describe('@kubernetes/client-node', () => {
    const config = new KubeConfig()
    beforeAll(() => {
      // HTTP is spoken only by who skips the check of certificates.
      config.loadFromClusterAndUser(
        { name: 'double', server: double.origin, skipTLSVerify: true },
        { name: 'nobody' },
      )
    })

    it('creates a claim, watches it until it is ready, lists and deletes it', async () => {
      const objects = config.makeApiClient(CustomObjectsApi)
      const ready = Promise.withResolvers<string>()
      const watch = new Watch(config)
      const path = `/apis/${CLAIMS.group}/${CLAIMS.version}/namespaces/${NAMESPACE}/sandboxclaims`
      const stop = await watch.watch(
        path,
        { fieldSelector: 'metadata.name=node' },
        (_type, seen: { status?: { conditions?: { status: string }[]; sandbox?: { name: string } } }) => {
          if (seen.status?.conditions?.some(({ status }) => status === 'True') === true)
            ready.resolve(seen.status.sandbox?.name ?? '')
        },
        (error) => ready.reject(error instanceof Error ? error : new Error('the watch ended')),
      )
      try {
        await objects.createNamespacedCustomObject({ ...CLAIMS, body: claim('node', { team: 'n' }) })
        const pod = await ready.promise
        expect(double.running()).toContainEqual({ pod, claim: 'node' })
      } finally {
        stop.abort()
      }
      const listed = await objects.listNamespacedCustomObject({ ...CLAIMS, labelSelector: 'team=n' })
      expect(listed).toMatchObject({ kind: 'SandboxClaimList', items: [{ metadata: { name: 'node' } }] })
      await objects.deleteNamespacedCustomObject({ ...CLAIMS, name: 'node' })
      await expect
        .poll(async () => await objects.listNamespacedCustomObject({ ...CLAIMS, labelSelector: 'team=n' }), {
          timeout: 30_000,
        })
        .toMatchObject({ items: [] })
    })

    it('gets errors as it expects them', async () => {
      const objects = config.makeApiClient(CustomObjectsApi)
      const absent = objects.getNamespacedCustomObject({ ...CLAIMS, name: 'absent' })
      await expect(absent).rejects.toMatchObject({ code: 404 })
      const wrong = objects.createNamespacedCustomObject({ ...CLAIMS, body: { kind: 'SandboxClaim' } })
      await expect(wrong).rejects.toMatchObject({ code: 422 })
    })
  })
})
