/** Tests the double of Kubernetes with kubectl and the project's own client for Node. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { promisify } from 'node:util'
import { CustomObjectsApi, KubeConfig, Watch } from '@kubernetes/client-node'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { createKubernetesBackend } from '../src/index.ts'
import { startKubectlProxy } from './kubectl-proxy.ts'
import { jobSpec, printed, python } from '@cofferdam/backend-remote/testing'

const run = promisify(execFile)
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

describe('the double of Kubernetes, called by its clients,', () => {
  const folder = temporaryFolder('kubernetes-clients')
  let double: KubernetesDouble
  beforeAll(async () => {
    double = await startKubernetesDouble()
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  needs('bwrap', 'kubectl').describe('kubectl', () => {
    /** A separate file instead of the user's, so that no real cluster is ever called. */
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

    it('applies a claim, waits for its pod, applies a change, and deletes the claim', async () => {
      expect(await kubectl('apply', '-f', file('applied', { team: 'a' }))).toMatch(/applied created/)
      await kubectl('wait', '--for=condition=Ready', 'sandboxclaim/applied', '--timeout=60s')
      expect(double.running()).toContainEqual({ pod: expect.any(String), claim: 'applied' })
      expect(await kubectl('apply', '-f', file('applied', { team: 'b' }))).toMatch(/applied configured/)
      expect(await kubectl('get', 'sandboxclaims', '-A', '-l', 'team=b', '-o', 'name')).toMatch(/\/applied$/m)
      expect(await kubectl('get', 'sandboxclaims', '-l', 'team=a', '-o', 'name')).toBe('')
      await kubectl('delete', '-f', file('applied', {}), '--cascade=foreground', '--timeout=60s')
      expect(double.running()).not.toContainEqual({ pod: expect.any(String), claim: 'applied' })
      await expect(kubectl('get', 'sandboxclaim', 'applied')).rejects.toThrow(/not found/)
    })

    it('selects pods by labels and fields, and sees a replacement for a deleted pod', async () => {
      await kubectl('create', '-f', file('podded', {}))
      await kubectl('wait', '--for=condition=Ready', 'sandboxclaim/podded', '--timeout=60s')
      const pod = await kubectl('get', 'sandboxclaim', 'podded', '-o', 'jsonpath={.status.sandbox.name}')
      const hash = await kubectl('get', 'sandbox', pod, '-o', 'jsonpath={.status.selector}')
      const [head = '', row = ''] = (await kubectl('get', 'pods', '-l', hash)).split('\n')
      expect(head.split(/\s+/)).toEqual(['NAME', 'READY', 'STATUS', 'RESTARTS', 'AGE'])
      expect(row).toMatch(new RegExp(`^${pod} +1/1 +Running +0 +\\d+s`))
      await kubectl('label', 'pod', pod, 'seen=yes')
      expect(await kubectl('get', 'pods', '-l', 'seen in (yes),!absent', '-o', 'name')).toBe(`pod/${pod}\n`)
      await expect(kubectl('label', 'pod', pod, 'seen=no value', '--overwrite')).rejects.toThrow(/invalid/i)
      expect(await kubectl('get', 'po', '--field-selector', 'status.phase=Failed', '-o', 'name')).toBe('')
      // kubectl's own wait checks twice by name only, so a pod that is replaced in between never seems gone.
      await kubectl('delete', 'pod', pod, '--wait=false')
      const named = async (...which: string[]) => await kubectl('get', 'pods', ...which, '-o', 'name')
      await expect.poll(() => named('-l', 'seen'), { timeout: 60_000 }).toBe('')
      const again = ['-l', hash, '--field-selector', 'status.phase=Running']
      await expect.poll(() => named(...again), { timeout: 60_000 }).toBe(`pod/${pod}\n`)
      await kubectl('delete', 'sandboxclaim', 'podded', '--cascade=foreground', '--timeout=60s')
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

    it('shows tables with the columns of each kind', async () => {
      await kubectl('create', '-f', file('shown', {}))
      await kubectl('wait', '--for=condition=Ready', 'sandboxclaim/shown', '--timeout=60s')
      const [head = '', row = ''] = (await kubectl('get', 'sandboxclaims')).split('\n')
      expect(head.split(/\s+/)).toEqual(['NAME', 'READY', 'SANDBOX', 'REASON', 'AGE'])
      expect(row).toMatch(/^shown +True +\S+ +DependenciesReady +\d+s/)
      expect(await kubectl('get', 'swp')).toMatch(/NAME +READY +DESIRED +AGE\ncofferdam /)
      await kubectl('delete', 'sandboxclaim', 'shown')
    })

    it('patches in both ways, replaces, and gets a conflict for an old version', async () => {
      await kubectl('create', '-f', file('changed', { a: '1' }))
      const operations = JSON.stringify([
        { op: 'test', path: '/metadata/labels/a', value: '1' },
        { op: 'replace', path: '/metadata/labels/a', value: '2' },
        { op: 'add', path: '/metadata/labels/b', value: '3' },
      ])
      await kubectl('patch', 'sandboxclaim', 'changed', '--type=json', '-p', operations)
      const failing = kubectl('patch', 'sandboxclaim', 'changed', '--type=json', '-p', operations)
      await expect(failing).rejects.toThrow(/test failed/)
      await kubectl(
        'patch',
        'sandboxclaim',
        'changed',
        '--type=merge',
        '-p',
        '{"metadata":{"labels":{"b":null}}}',
      )
      const whole = await kubectl('get', 'sandboxclaim', 'changed', '-o', 'json')
      expect(JSON.parse(whole)).toMatchObject({
        metadata: { labels: { a: '2' } },
        spec: { warmPoolRef: { name: 'cofferdam' } },
      })
      expect(whole).not.toContain('"b"')
      const path = join(folder, 'whole.json')
      writeFileSync(path, whole.replace('"a": "2"', '"a": "4"'))
      await kubectl('label', 'sandboxclaim', 'changed', 'other=yes')
      await expect(kubectl('replace', '-f', path)).rejects.toThrow(/Conflict|has been modified/)
      await kubectl('delete', 'sandboxclaim', 'changed')
    })

    it('keeps an object until its finalizers are removed', async () => {
      await kubectl('create', '-f', file('held', {}))
      const finalizers = (list: string[]): Promise<string> =>
        kubectl(
          'patch',
          'sandboxclaim',
          'held',
          '--type=merge',
          '-p',
          JSON.stringify({ metadata: { finalizers: list } }),
        )
      await finalizers(['example.com/held'])
      await kubectl('delete', 'sandboxclaim', 'held', '--wait=false')
      const time = await kubectl(
        'get',
        'sandboxclaim',
        'held',
        '-o',
        'jsonpath={.metadata.deletionTimestamp}',
      )
      expect(time).toMatch(/^\d{4}-/)
      await finalizers([])
      await kubectl('wait', '--for=delete', 'sandboxclaim/held', '--timeout=60s')
    })

    it('gets an error for each field that the schemas do not allow', async () => {
      const wrong = (name: string, spec: object): string => {
        const path = join(folder, `${name}.json`)
        writeFileSync(path, JSON.stringify({ ...claim(name), spec }))
        return path
      }
      const policy = { warmPoolRef: { name: 'p' }, lifecycle: { shutdownPolicy: 'Perhaps' } }
      await expect(kubectl('create', '-f', wrong('policy', policy))).rejects.toThrow(
        /spec\.lifecycle\.shutdownPolicy: Unsupported value: "Perhaps": supported values: "Delete"/,
      )
      await expect(kubectl('create', '-f', wrong('empty', {}))).rejects.toThrow(
        /spec\.warmPoolRef: Required value/,
      )
      const timed = { warmPoolRef: { name: 'p' }, lifecycle: { shutdownTime: 'tomorrow' } }
      await expect(kubectl('create', '-f', wrong('timed', timed))).rejects.toThrow(/shutdownTime/)
      await expect(
        kubectl('patch', 'swp', 'cofferdam', '--type=merge', '-p', '{"spec":{"replicas":-1}}'),
      ).rejects.toThrow(/greater than or equal to 0/)
    })

    it('gives a worker outside of the cluster access by only a kubeconfig', async () => {
      await using proxy = await startKubectlProxy(config)
      await using backend = createKubernetesBackend({ api_server: proxy.origin, token_file: null })
      const program = python('print(6 * 7)')
      const sandbox = await backend.open(jobSpec('4be24be24be2', program), AbortSignal.timeout(40_000))
      expect(await printed(sandbox, program)).toBe('42\n')
      await sandbox[Symbol.asyncDispose]()
      expect(double.claims()).toEqual([])
    })

    it('scales a warm pool', async () => {
      expect(await kubectl('scale', 'sandboxwarmpool', 'cofferdam', '--replicas=2')).toMatch(/scaled/)
      const pool = await kubectl('get', 'sandboxwarmpool', 'cofferdam', '-o', 'jsonpath={.spec.replicas}')
      expect(pool).toBe('2')
    })
  })

  needs('bwrap').describe('@kubernetes/client-node', () => {
    const config = new KubeConfig()
    beforeAll(() => {
      // The client uses HTTP only if it skips the check of certificates.
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

    it('changes objects by JSON Patch and replacement, and learns of dropped fields', async () => {
      const objects = config.makeApiClient(CustomObjectsApi)
      const created = (await objects.createNamespacedCustomObject({ ...CLAIMS, body: claim('written') })) as {
        metadata: { resourceVersion: string; generation: number }
        spec: { lifecycle?: object }
      }
      const name = { ...CLAIMS, name: 'written' }
      const add = [{ op: 'add', path: '/spec/lifecycle', value: { ttlSecondsAfterFinished: 60 } }]
      expect(await objects.patchNamespacedCustomObject({ ...name, body: add })).toMatchObject({
        metadata: { generation: 2 },
        spec: { lifecycle: { ttlSecondsAfterFinished: 60, shutdownPolicy: 'Retain' } },
      })
      const stale = objects.replaceNamespacedCustomObject({ ...name, body: created })
      await expect(stale).rejects.toMatchObject({ code: 409 })
      const unnamed = { ...created, metadata: { name: 'written' } }
      await expect(objects.replaceNamespacedCustomObject({ ...name, body: unnamed })).rejects.toMatchObject({
        code: 422,
      })
      const strict = {
        ...CLAIMS,
        fieldValidation: 'Strict',
        body: { ...claim('strict'), spec: { warmPoolRef: { name: 'p' }, ttl: 1 } },
      }
      await expect(objects.createNamespacedCustomObject(strict)).rejects.toMatchObject({ code: 400 })
      await objects.deleteNamespacedCustomObject(name)
    })

    it('receives bookmarks, and events of objects that leave its selection', async () => {
      const objects = config.makeApiClient(CustomObjectsApi)
      await objects.createNamespacedCustomObject({ ...CLAIMS, body: claim('left', { team: 'l' }) })
      const seen: string[] = []
      const path = `/apis/${CLAIMS.group}/${CLAIMS.version}/namespaces/${NAMESPACE}/sandboxclaims`
      const stop = await new Watch(config).watch(
        path,
        { labelSelector: 'team in (l, m)', allowWatchBookmarks: true },
        (type) => void seen.push(type),
        () => undefined,
      )
      try {
        await expect.poll(() => seen, { timeout: 30_000 }).toContain('ADDED')
        double.bookmark()
        await expect.poll(() => seen, { timeout: 30_000 }).toContain('BOOKMARK')
        const other = [{ op: 'replace', path: '/metadata/labels/team', value: 'x' }]
        await objects.patchNamespacedCustomObject({ ...CLAIMS, name: 'left', body: other })
        await expect.poll(() => seen, { timeout: 30_000 }).toContain('DELETED')
      } finally {
        stop.abort()
      }
      await objects.deleteNamespacedCustomObject({ ...CLAIMS, name: 'left' })
    })

    it('gets errors in the expected form', async () => {
      const objects = config.makeApiClient(CustomObjectsApi)
      const absent = objects.getNamespacedCustomObject({ ...CLAIMS, name: 'absent' })
      await expect(absent).rejects.toMatchObject({ code: 404 })
      const wrong = objects.createNamespacedCustomObject({ ...CLAIMS, body: { kind: 'SandboxClaim' } })
      await expect(wrong).rejects.toMatchObject({ code: 422 })
    })
  })
})
