/** Access to the API server by a kubeconfig: by token, client certificate, and credential plugin. */
import { execFileSync } from 'node:child_process'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { temporaryFolder } from '@cofferdam/embedded/testing'
import type { Probe } from '@cofferdam/contract'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { startKubernetesDouble, type KubernetesDouble } from '../double/kubernetes-double.ts'
import { createKubernetesBackend } from '../src/index.ts'

const TOKEN = 'canary-token-0815'

needs('bwrap').describe('a kubeconfig', () => {
  const folder = temporaryFolder('kubeconfig')
  const path = (name: string): string => join(folder, name)
  let double: KubernetesDouble

  beforeAll(async () => {
    double = await startKubernetesDouble({ token: TOKEN, replicas: 0 })
  })
  afterAll(async () => {
    await double[Symbol.asyncDispose]()
  })

  /** The double has no TLS by default, which the client accepts only without verification. */
  const clusterOf = (server: string): object => ({ server, 'insecure-skip-tls-verify': true })

  /** Writes a kubeconfig whose first context leads nowhere. */
  function kubeconfig(name: string, user: object, cluster = clusterOf(double.origin)): string {
    const named = (key: string, other: object, own: object) => [
      { name: 'nowhere', [key]: other },
      { name: 'own', [key]: own },
    ]
    const config = {
      apiVersion: 'v1',
      kind: 'Config',
      clusters: named('cluster', clusterOf('http://127.0.0.1:1'), cluster),
      users: named('user', {}, user),
      contexts: named('context', { cluster: 'nowhere', user: 'nowhere' }, { cluster: 'own', user: 'own' }),
      'current-context': 'own',
    }
    writeFileSync(path(name), JSON.stringify(config))
    return path(name)
  }

  async function probed(settings: Parameters<typeof createKubernetesBackend>[0]): Promise<Probe> {
    await using backend = createKubernetesBackend({ api_timeout_ms: 40_000, ...settings })
    return await backend.probe(AbortSignal.timeout(50_000))
  }

  /** A credential plugin that prints the token which it reads from a file. It also counts its calls. */
  function plugin(): { exec: object; calls: () => number } {
    const credential =
      '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"%s"}}'
    const script = `#!/bin/sh\necho called >> '${path('calls')}'\nprintf '${credential}' "$(cat '${path('token')}')"\n`
    writeFileSync(path('plugin'), script)
    chmodSync(path('plugin'), 0o755)
    writeFileSync(path('calls'), '')
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: path('plugin') }
    return { exec, calls: () => readFileSync(path('calls'), 'utf8').split('\n').length - 1 }
  }

  it('provides server and token of its current context', async () => {
    expect(await probed({ kubeconfig: kubeconfig('with-token', { token: TOKEN }) })).toMatchObject({
      ok: true,
    })
  })

  it('is read again if the server refuses its token', async () => {
    const file = kubeconfig('renewed', { token: 'an-old-token' })
    await using backend = createKubernetesBackend({ kubeconfig: file, api_timeout_ms: 40_000 })
    const refused = await backend.probe(AbortSignal.timeout(50_000))
    expect(refused).toMatchObject({ ok: false, why: expect.stringContaining('401') as string })
    kubeconfig('renewed', { token: TOKEN })
    expect(await backend.probe(AbortSignal.timeout(50_000))).toMatchObject({ ok: true })
  })

  it('provides the context that the settings name', async () => {
    const file = kubeconfig('contexts', { token: TOKEN })
    expect(await probed({ kubeconfig: file, kubeconfig_context: 'nowhere' })).toMatchObject({
      ok: false,
      why: `Kubernetes: the API server of ${file} does not answer.`,
    })
    expect(await probed({ kubeconfig: file, kubeconfig_context: 'own' })).toMatchObject({ ok: true })
  })

  it('runs a credential plugin once, and again if the server refuses its credentials', async () => {
    const { exec, calls } = plugin()
    writeFileSync(path('token'), TOKEN)
    const settings = { kubeconfig: kubeconfig('plugin-user', { exec }), api_timeout_ms: 40_000 }
    await using backend = createKubernetesBackend(settings)
    expect(await backend.probe(AbortSignal.timeout(50_000))).toMatchObject({ ok: true })
    expect(calls()).toBe(1)
    writeFileSync(path('token'), 'another-secret-token')
    await using other = createKubernetesBackend(settings)
    const refused = await other.probe(AbortSignal.timeout(50_000))
    expect(refused).toMatchObject({ ok: false, why: expect.stringContaining('401') as string })
    expect(JSON.stringify(refused)).not.toContain('another-secret-token')
    expect(calls()).toBe(3)
  })

  it('names the context but not its plugin’s output in the error of a failed plugin', async () => {
    writeFileSync(path('fails'), '#!/bin/sh\necho secret-canary >&2\nexit 1\n')
    chmodSync(path('fails'), 0o755)
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: path('fails') }
    const file = kubeconfig('failing', { exec })
    expect(await probed({ kubeconfig: file })).toMatchObject({
      ok: false,
      why: `Kubernetes: ${file} gives no credentials. Check its current context with kubectl.`,
    })
  })

  it('does not delay a call beyond its timeout if its plugin hangs', async () => {
    const exec = { apiVersion: 'client.authentication.k8s.io/v1', command: '/bin/sleep', args: ['5'] }
    const file = kubeconfig('hanging', { exec })
    expect(await probed({ kubeconfig: file, api_timeout_ms: 1000 })).toMatchObject({
      ok: false,
      why: `Kubernetes: the API server of ${file} does not answer.`,
    })
  })

  needs('openssl').it('uses a client certificate with a server of its own authority', async () => {
    const [key, cert] = [path('key.pem'), path('cert.pem')]
    const words = 'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=double'
    const names = ['-addext', 'subjectAltName=IP:127.0.0.1', '-keyout', key, '-out', cert]
    execFileSync('openssl', [...words.split(' '), ...names], { stdio: 'ignore' })
    const pem = { key: readFileSync(key, 'utf8'), cert: readFileSync(cert, 'utf8') }
    const tls = { ...pem, ca: pem.cert, requestCert: true }
    await using secure = await startKubernetesDouble({ tls, replicas: 0 })
    const data = (file: string): string => readFileSync(file).toString('base64')
    const cluster = { server: secure.origin, 'certificate-authority-data': data(cert) }
    const user = { 'client-certificate-data': data(cert), 'client-key-data': data(key) }
    expect(await probed({ kubeconfig: kubeconfig('by-certificate', user, cluster) })).toMatchObject({
      ok: true,
    })
    expect(await probed({ kubeconfig: kubeconfig('without', {}, cluster) })).toMatchObject({ ok: false })
    const distrusted = kubeconfig('distrusted', user, { server: secure.origin })
    expect(await probed({ kubeconfig: distrusted })).toMatchObject({ ok: false })
  })
})

it('uses the service account of its pod without any setting', async () => {
  await using backend = createKubernetesBackend()
  expect(await backend.probe(AbortSignal.timeout(20_000))).toMatchObject({
    ok: false,
    why: expect.stringMatching(
      /^Kubernetes: \/var\/run\/secrets\/kubernetes.io\/serviceaccount\/\S+ cannot be read/,
    ),
  })
})
