/**
 * Azure Container Apps dynamic sessions on loopback: one origin for code-interpreter pools, tokens and ARM,
 * and one for each custom-container pool, because those have their own host names.
 */
import { chmod, mkdtemp, rm } from 'node:fs/promises'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { installGuest } from '@cofferdam/sandbox/guest'
import { listen, type MirrorServer, type ServerTls } from '@cofferdam/backend-remote/double'
import { ArmPlane } from './arm/arm-plane.ts'
import { CodePlane } from './code-plane.ts'
import { handleContainerCall } from './container-plane.ts'
import { Dropped, jsonOf, Refusal, reply, replyError } from './exchange.ts'
import { beforeCall, happens, NO_FAULTS, type Faults } from './faults.ts'
import { Identity, SESSIONS_AUDIENCE } from './identity.ts'
import { SessionPool, type PoolKind, type PoolOptions } from './session-pool.ts'

export const SUBSCRIPTION = '00000000-0000-0000-0000-000000000000'
const RESOURCE_GROUP = 'double'
const POOL_PATH = /^\/subscriptions\/[\w-]+\/resourceGroups\/[\w.()-]+\/sessionPools\/([\w-]+)(\/.*)$/

export interface AzureDouble extends AsyncDisposable {
  readonly origin: string
  /** Null without a certificate. */
  readonly tlsOrigin: string | null
  readonly identity: Identity
  /** The management plane: groups, pools, roles. Pools created there are pools of the double. */
  readonly arm: ArmPlane
  /** Value for `IDENTITY_ENDPOINT`. */
  readonly identityEndpoint: string
  /** `poolManagementEndpoint` of a pool. */
  endpoint(pool: string): string
  pool(name: string): SessionPool
  /** Data plane of a code pool: its dialects and number of executions. */
  codePlane(name: string): CodePlane
  /** Creates another pool; resolves to its management endpoint. */
  addPool(options: PoolOptions): Promise<string>
  removePool(name: string): Promise<void>
  /** Changes the given faults from now on. The others stay. */
  fault(faults: Partial<Faults>): void
  /** Holds the next data plane call whose path contains `path`, before it takes effect, until `letGo`. */
  hold(path: string): HeldCall
  /** Every request so far, as `METHOD path?query`. */
  readonly requests: string[]
}

export interface HeldCall {
  /** Resolves when the call has arrived. */
  readonly arrived: Promise<void>
  letGo(): void
}

export interface AzureDoubleOptions {
  port?: number
  /** Default: `python` (PythonLTS), `shell` (Shell) and `custom` (CustomContainer). */
  pools?: PoolOptions[]
  /** Also serves TLS at a second port: Microsoft's ARM clients send no token without it. */
  tls?: ServerTls
}

interface Pool {
  sessions: SessionPool
  plane: CodePlane
  endpoint: string
  server: MirrorServer | null
}

/** Starts the double. Programs run in jails on this machine. */
export async function startAzureDouble(options: AzureDoubleOptions = {}): Promise<AzureDouble> {
  const identity = new Identity({
    identityHeader: 'double-identity-header',
    clientSecret: 'double-client-secret',
    assertion: 'double-federated-assertion',
  })
  const faults: Faults = { ...NO_FAULTS }
  const pools = new Map<string, Pool>()
  const requests: string[] = []
  const holds: { path: string; arrived: PromiseWithResolvers<void>; gate: PromiseWithResolvers<void> }[] = []
  const agentFolder = await mkdtemp(join(tmpdir(), 'cofferdam-double-agent-'))
  await chmod(agentFolder, 0o755)
  await installGuest(agentFolder, '/usr/bin/python3')

  const answering =
    (work: (request: IncomingMessage, response: ServerResponse, url: URL) => Promise<void>) =>
    (request: IncomingMessage, response: ServerResponse): void => {
      requests.push(`${request.method} ${request.url}`)
      const url = new URL(request.url ?? '/', 'http://double')
      work(request, response, url).catch((error: unknown) => replyError(response, error))
    }

  /**
   * Makes the checks that every call to a pool must pass. Resolves to the call's identifier, or '' without
   * one.
   */
  async function admitted(request: IncomingMessage, url: URL, { sessions }: Pool): Promise<string> {
    const why = identity.refusal(request, SESSIONS_AUDIENCE)
    if (why !== null) throw new Refusal(401, 'Unauthorized', why)
    const identifier = url.searchParams.get('identifier') ?? ''
    if (identifier !== '' && !/^[A-Za-z0-9\-._~:;()[\]@!$&'*+,=]{4,128}$/.test(identifier))
      throw new Refusal(400, 'SessionRequestValidationFailed', 'The identifier is not allowed.')
    const held = holds.find(({ path }) => url.pathname.includes(path))
    if (held !== undefined) {
      holds.splice(holds.indexOf(held), 1)
      held.arrived.resolve()
      await held.gate.promise
    }
    await beforeCall(faults, sessions, url.pathname, identifier)
    if (!url.pathname.includes(faults.drop_path)) return identifier
    if (happens(faults, 'drop_before')) throw new Dropped()
    if (identifier !== '' && happens(faults, 'expire'))
      throw new Refusal(409, 'SessionExpired', 'The session has expired.')
    return identifier
  }

  const arm = new ArmPlane({
    identity,
    host: {
      addPool: (name, { containerType }) => double.addPool({ name, kind: containerType as PoolKind }),
      removePool: (name) => double.removePool(name),
    },
  })
  const main = answering(async (request, response, url) => {
    // Not part of Azure's API: sets the double's faults and resets those that the body leaves out.
    if (url.pathname === '/_double/faults') {
      Object.assign(faults, NO_FAULTS, await jsonOf(request))
      return reply(response, 200, faults)
    }
    if (await identity.handle(request, response)) return
    if (await arm.handle(request, response)) return
    const [, name, path] = POOL_PATH.exec(url.pathname) ?? []
    const pool = pools.get(name ?? '')
    if (pool === undefined || path === undefined || pool.server !== null)
      throw new Refusal(404, 'SessionPoolNotFound', 'There is no such pool.')
    const identifier = await admitted(request, url, pool)
    await pool.plane.handle(request, response, path, url.searchParams, identifier)
  })
  const server = await listen(options.port ?? 0, main)
  const origin = `http://127.0.0.1:${server.port}`
  const tlsServer = options.tls === undefined ? null : await listen(0, main, options.tls)

  const double: AzureDouble = {
    origin,
    tlsOrigin: tlsServer === null ? null : `https://127.0.0.1:${tlsServer.port}`,
    identity,
    arm,
    identityEndpoint: `${origin}/msi/token`,
    requests,
    endpoint: (name) => of(name).endpoint,
    pool: (name) => of(name).sessions,
    codePlane: (name) => of(name).plane,
    hold(path) {
      const [arrived, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
      holds.push({ path, arrived, gate })
      return { arrived: arrived.promise, letGo: () => gate.resolve() }
    },
    fault: (change) => void Object.assign(faults, change),
    async addPool(wish) {
      const sessions = new SessionPool(wish, agentFolder)
      const path = `/subscriptions/${SUBSCRIPTION}/resourceGroups/${RESOURCE_GROUP}/sessionPools/${wish.name}`
      const pool: Pool = {
        sessions,
        plane: new CodePlane(sessions, faults),
        endpoint: origin + path,
        server: null,
      }
      if (wish.kind === 'CustomContainer') {
        pool.server = await listen(
          0,
          answering(async (request, response, url) => {
            const identifier = await admitted(request, url, pool)
            await handleContainerCall(sessions, faults, request, response, url, identifier)
          }),
        )
        pool.endpoint = `http://127.0.0.1:${pool.server.port}`
      }
      pools.set(wish.name, pool)
      return pool.endpoint
    },
    async removePool(name) {
      const pool = pools.get(name)
      pools.delete(name)
      await pool?.sessions.close()
      await pool?.server?.[Symbol.asyncDispose]()
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...pools.keys()].map((name) => double.removePool(name)))
      await server[Symbol.asyncDispose]()
      await tlsServer?.[Symbol.asyncDispose]()
      await rm(agentFolder, { recursive: true, force: true })
    },
  }
  function of(name: string): Pool {
    const pool = pools.get(name)
    if (pool === undefined) throw new Error(`the double has no pool ${name}`)
    return pool
  }
  const wanted = options.pools ?? [
    { name: 'python', kind: 'PythonLTS' },
    { name: 'shell', kind: 'Shell' },
    { name: 'custom', kind: 'CustomContainer' },
  ]
  for (const pool of wanted) await double.addPool(pool)
  return double
}
