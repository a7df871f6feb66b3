import { createServer, type RequestListener } from 'node:http'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  DEFAULT_LIMITS,
  newExecutionId,
  newSandboxId,
  newWorkerId,
  type SandboxSpec,
} from '@cofferdam/contract'
import { guestDigest } from '../guest/index.ts'
import { expect, test } from 'vitest'
import { createDockerBackend } from './index.ts'
import { runsOnHostKernel, runtimeKind } from './runtime-kind.ts'

const never = new AbortController().signal
const spec = (): SandboxSpec => ({
  sandboxId: newSandboxId(),
  executionId: newExecutionId(),
  attempt: 1,
  tenantId: 't',
  owner: newWorkerId('0123456789ab'),
  program: { type: 'script', language: 'python', source: '' },
  limits: DEFAULT_LIMITS,
  network: 'none',
  env: {},
  preload: null,
  reuse: 'job',
  session: null,
})

/** A fake daemon with this listener, on its own socket. */
async function withDaemon(
  answer: RequestListener,
  use: (socketPath: string) => Promise<void>,
): Promise<void> {
  const directory = await mkdtemp(join(tmpdir(), 'cofferdam-docker-'))
  const server = createServer(answer)
  const path = join(directory, 'd.sock')
  await new Promise<void>((resolve) => server.listen(path, resolve))
  try {
    await use(path)
  } finally {
    server.closeAllConnections()
    server.close()
    await rm(directory, { recursive: true })
  }
}

const INFO = { OSType: 'linux', ServerVersion: '28.0', Runtimes: { runc: {} }, DefaultRuntime: 'runc' }
const reply =
  (status: number, body: unknown): RequestListener =>
  (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  }

test('reports that no daemon answers, and opens nothing', async () => {
  const backend = await createDockerBackend({ host: '/nonexistent/docker.sock' })
  expect(await backend.probe(never)).toMatchObject({
    ok: false,
    why: expect.stringContaining('/nonexistent/docker.sock'),
    fix: expect.stringContaining('DOCKER_HOST'),
  })
  await expect(backend.open(spec(), never)).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  await backend[Symbol.asyncDispose]()
})

test('reports that the image is missing and how to build it', async () => {
  const info = reply(200, INFO)
  const missing = reply(404, { message: 'No such image: cofferdam/sandbox:latest' })
  await withDaemon(
    (request, response) => (request.url?.includes('/info') === true ? info : missing)(request, response),
    async (host) => {
      const backend = await createDockerBackend({ host })
      expect(await backend.probe(never)).toMatchObject({
        ok: false,
        fix: expect.stringContaining('npm run image'),
      })
      await expect(backend.open(spec(), never)).rejects.toMatchObject({
        code: 'backend_unavailable',
        message: expect.stringContaining('npm run image'),
      })
      await backend[Symbol.asyncDispose]()
    },
  )
})

test('lists the available runtimes if the configured one is missing', async () => {
  await withDaemon(reply(200, INFO), async (host) => {
    const backend = await createDockerBackend({ host, runtime: 'runsc' })
    expect(await backend.probe(never)).toMatchObject({
      ok: false,
      why: 'The daemon has no runtime "runsc"; it has runc.',
      fix: expect.stringContaining('runsc install'),
    })
  })
})

test('does not wait for a daemon that hangs', async () => {
  await withDaemon(
    () => {},
    async (host) => {
      const backend = await createDockerBackend({ host, api_timeout_ms: 1000 })
      expect(await backend.probe(never)).toMatchObject({ ok: false, why: expect.stringContaining('1000 ms') })
      const reason = new Error('enough')
      const stop = new AbortController()
      const probing = backend.probe(stop.signal)
      stop.abort(reason)
      await expect(probing).rejects.toBe(reason)
    },
  )
})

test('kills only by its own refs', async () => {
  const backend = await createDockerBackend({ host: '/nonexistent/docker.sock' })
  const ref = { backend: 'docker', id: newSandboxId(), handle: { slot: '../../somebody-elses' } }
  await expect(backend.kill(ref)).rejects.toMatchObject({ code: 'invalid_request' })
})

test('refuses an invalid host address', async () => {
  await expect(createDockerBackend({ host: 'what is this' })).rejects.toMatchObject({
    code: 'config_invalid',
  })
})

test('reports that the image has another agent and how to fix that', async () => {
  await withDaemon(
    (request, response) =>
      (request.url?.includes('/info') === true
        ? reply(200, INFO)
        : reply(200, {
            Id: 'sha256:0123456789abcdef',
            Config: { Labels: { 'cofferdam.guest': 'another' } },
          }))(request, response),
    async (host) => {
      await using backend = await createDockerBackend({ host })
      expect(await backend.probe(never)).toMatchObject({
        ok: false,
        fix: expect.stringContaining('`npm run image`'),
      })
    },
  )
})

const image = reply(200, {
  Id: 'sha256:0123456789abcdef0123',
  Config: { Labels: { 'cofferdam.guest': guestDigest() } },
})
const withInfo =
  (info: object): RequestListener =>
  (request, response) =>
    (request.url?.includes('/info') === true ? reply(200, info) : image)(request, response)

test('uses crun if the daemon has it and no runtime is configured', async () => {
  const info = { ...INFO, Runtimes: { runc: {}, crun: {} } }
  await withDaemon(withInfo(info), async (host) => {
    const features = async (runtime: string | null): Promise<string> => {
      await using backend = await createDockerBackend({ host, runtime })
      const probe = await backend.probe(never)
      return probe.ok ? probe.features.join('\n') : probe.why
    }
    expect(await features(null)).toContain('runtime crun')
    expect(await features('runc')).toContain('runtime runc')
    expect(await features(null)).toContain('image cofferdam/sandbox:latest (0123456789ab)')
  })
})

test('does not use crun with AppArmor, and reports that', async () => {
  const info = {
    ...INFO,
    Runtimes: { runc: {}, crun: {} },
    SecurityOptions: ['name=apparmor', 'name=seccomp'],
  }
  await withDaemon(withInfo(info), async (host) => {
    const features = async (runtime: string | null): Promise<string> => {
      await using backend = await createDockerBackend({ host, runtime })
      const probe = await backend.probe(never)
      return probe.ok ? probe.features.join('\n') : probe.why
    }
    expect(await features(null)).toMatch(/runtime runc \(crun is registered; beside AppArmor/)
    expect(await features('crun')).toMatch(/runtime crun$/m)
  })
})

test('recognises Kata by its names, believes none, and declares only tested features', async () => {
  await withDaemon(withInfo(INFO), async (host) => {
    await using kata = await createDockerBackend({ host, runtime: 'kata' })
    expect(kata.isolation).toBe('container')
    expect(kata.capabilities.measures).toEqual(['wall_ms'])
    expect(await kata.probe(never)).toMatchObject({
      ok: false,
      why: 'The daemon has no runtime "kata"; it has runc.',
      fix: expect.stringContaining('/dev/kvm'),
    })
  })
  const nothingStarts: RequestListener = (request, response) =>
    request.method === 'POST'
      ? reply(400, { message: 'no such shim' })(request, response)
      : withInfo(INFO)(request, response)
  await withDaemon(nothingStarts, async (host) => {
    // Docker 28 accepts the name of an unregistered shim.
    await using shim = await createDockerBackend({ host, runtime: 'io.containerd.kata.v2' })
    expect(await shim.probe(never)).toMatchObject({
      ok: false,
      why: expect.stringContaining('starts no container that tells its kernel'),
    })
    expect(shim.isolation).toBe('container')
    await expect(shim.open(spec(), never)).rejects.toMatchObject({ code: 'sandbox_open_failed' })
  })
  await withDaemon(withInfo({ ...INFO, ServerVersion: '20.10.24' }), async (host) => {
    await using shim = await createDockerBackend({ host, runtime: 'io.containerd.kata.v2' })
    expect(await shim.probe(never)).toMatchObject({ ok: false })
  })
})

test('keeps its first image if the tag moves, and reports that', async () => {
  let id = 'sha256:aaaaaaaaaaaaaaaa'
  await withDaemon(
    (request, response) =>
      (request.url?.includes('/info') === true ? reply(200, INFO) : reply(200, { Id: id, Config: {} }))(
        request,
        response,
      ),
    async (host) => {
      await using backend = await createDockerBackend({ host })
      await backend.probe(never)
      id = 'sha256:bbbbbbbbbbbbbbbb'
      const probe = await backend.probe(never)
      expect(probe.ok && probe.features).toContain(
        'image cofferdam/sandbox:latest as it was at the start (aaaaaaaaaaaa); restart the worker to use bbbbbbbbbbbb',
      )
    },
  )
})

test.each([
  ['kata', '6.1.0', '6.1.0', true],
  ['kata-qemu', '', '6.1.0', true],
  ['io.containerd.kata.v2', '6.12.28', null, true],
  ['kata', '6.12.28', '6.1.0', false],
  ['runsc', '4.4.0', '6.1.0', false],
  ['runsc', '6.1.0', '6.1.0', true],
  ['runc', '6.1.0', '6.1.0', false],
])(
  "tells for runtime %s with kernel %j on a host with %j whether it uses the host's kernel: %s",
  (runtime, inside, host, is) => {
    expect(runsOnHostKernel(runtimeKind(runtime), inside, host)).toBe(is)
  },
)
