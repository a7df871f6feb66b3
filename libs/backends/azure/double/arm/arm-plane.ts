/**
 * The double's management plane: resource groups, session pools with long-running operations, roles. Paths
 * and bodies as in ARM's REST reference. Faults make operations slow, fail them, or lose their answers.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { TLSSocket } from 'node:tls'
import { Dropped, jsonOf, Refusal, reply } from '../exchange.ts'
import { ARM_AUDIENCE, type Identity } from '../identity.ts'
import { NO_ARM_FAULTS, type ArmFaults } from './arm-faults.ts'
import { fold, nameOf, shown, shownRole, withState, type ArmPool, type ArmResource } from './arm-shapes.ts'
import { Operations, placeHeaders, type ArmAnswer } from './operations.ts'
import { AZURE_ARM } from './published.ts'

const GROUP = /^\/subscriptions\/([\w-]+)\/resourcegroups\/([\w.()-]+)$/i
const RESOURCES = /^\/subscriptions\/([\w-]+)\/resourcegroups\/([\w.()-]+)\/resources$/i
const POOL =
  /^(\/subscriptions\/([\w-]+)\/resourcegroups\/([\w.()-]+))\/providers\/microsoft\.app\/sessionpools\/([\w-]+)$/i
const POOLS =
  /^(\/subscriptions\/[\w-]+(?:\/resourcegroups\/[\w.()-]+)?)\/providers\/microsoft\.app\/sessionpools$/i
const ROLE = /^(.+\/sessionpools\/[\w-]+)\/providers\/microsoft\.authorization\/roleassignments\/([\w-]+)$/i

/** Creates and removes the data plane of a pool; resolves to its management endpoint. */
export interface PoolHost {
  addPool(name: string, properties: Record<string, unknown>): Promise<string>
  removePool(name: string): Promise<void>
}

export class ArmPlane {
  readonly groups = new Map<string, { id: string; location: string; tags: Record<string, string> }>()
  readonly pools = new Map<string, ArmPool>()
  readonly others: ArmResource[] = []
  /** Role assignments by ID. */
  readonly roles = new Map<string, Record<string, unknown>>()
  readonly faults: ArmFaults = { ...NO_ARM_FAULTS }
  readonly #identity: Identity
  readonly #host: PoolHost
  readonly #operations = new Operations()

  constructor(deps: { identity: Identity; host: PoolHost }) {
    this.#identity = deps.identity
    this.#host = deps.host
  }

  /** Returns false for paths of other planes. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const url = new URL(request.url ?? '/', 'http://double')
    const path = url.pathname
    const isResource = [GROUP, RESOURCES, POOLS, POOL, ROLE].some((known) => known.test(path))
    if (!isResource && !this.#operations.isPlace(path)) return false
    const why = this.#identity.refusal(request, ARM_AUDIENCE)
    if (why !== null) throw new Refusal(401, 'InvalidAuthenticationToken', why)
    if (!url.searchParams.has('api-version'))
      throw new Refusal(400, 'MissingApiVersionParameter', 'The api-version query parameter is required.')
    if (this.faults.throttle > 0) {
      this.faults.throttle -= 1
      const { retry_after: seconds } = this.faults
      const headers: Record<string, string> = seconds === null ? {} : { 'Retry-After': String(seconds) }
      throw new Refusal(429, 'TooManyRequests', 'The request is being throttled.', headers)
    }
    const body = ['PUT', 'PATCH'].includes(request.method ?? '') ? await jsonOf(request) : {}
    const wrong = AZURE_ARM.faultOfRequest(request.method ?? '', path, body)
    if (wrong !== null) throw new Refusal(400, 'InvalidRequestContent', wrong)
    const answer = await this.#answer(request.method ?? '', path, body)
    AZURE_ARM.checkAnswer(request.method ?? '', path, answer.status, answer.body)
    const headers =
      answer.place === undefined
        ? {}
        : placeHeaders(answer, answer.place, this.faults.foreign_poll ?? originOf(request))
    const { drop_after: drop } = this.faults
    if (drop !== null && drop.times > 0 && `${request.method} ${path}`.includes(drop.contains)) {
      drop.times -= 1
      throw new Dropped()
    }
    reply(response, answer.status, answer.body, headers)
    return true
  }

  async #answer(method: string, path: string, body: Record<string, unknown>): Promise<ArmAnswer> {
    if (this.#operations.isPlace(path)) return await this.#operations.poll(path)
    if (RESOURCES.test(path)) return this.#list(path.replace(/\/resources$/i, ''))
    if (POOLS.test(path)) return this.#poolsBelow(POOLS.exec(path)?.[1] ?? '')
    if (ROLE.test(path)) return this.#role(method, path, body)
    if (POOL.test(path)) return await this.#pool(method, path, body)
    return await this.#group(method, path, body)
  }

  #list(group: string): ArmAnswer {
    if (!this.groups.has(fold(group))) throw notFound('ResourceGroupNotFound')
    const within = [...this.pools.values(), ...this.others].filter(({ id }) =>
      fold(id).startsWith(`${fold(group)}/`),
    )
    return {
      status: 200,
      body: { value: within.map(({ id, type, tags }) => ({ id, name: nameOf(id), type, tags })) },
    }
  }

  async #group(method: string, path: string, body: Record<string, unknown>): Promise<ArmAnswer> {
    const there = this.groups.get(fold(path))
    switch (method) {
      case 'PUT': {
        const { location, tags = {} } = body as { location: string; tags?: Record<string, string> }
        if (there !== undefined && there.location !== location)
          throw new Refusal(409, 'InvalidResourceGroupLocation', 'The group is in another location.')
        const made = { id: path, location, tags }
        this.groups.set(fold(path), made)
        return { status: there === undefined ? 201 : 200, body: withState(made) }
      }
      case 'GET':
        if (there === undefined) throw notFound('ResourceGroupNotFound')
        return { status: 200, body: withState(there) }
      default:
        if (there === undefined) throw notFound('ResourceGroupNotFound')
        return this.#operations.begin(202, 'result', this.faults.polls, async () => {
          for (const [key, pool] of this.pools)
            if (key.startsWith(`${fold(path)}/`)) await this.#drop(key, pool)
          this.groups.delete(fold(path))
        })
    }
  }

  #poolsBelow(scope: string): ArmAnswer {
    const isGroup = /\/resourcegroups\//i.test(scope)
    if (isGroup && !this.groups.has(fold(scope))) throw notFound('ResourceGroupNotFound')
    const value = [...this.pools].flatMap(([key, pool]) =>
      key.startsWith(`${fold(scope)}/`) ? [shown(pool)] : [],
    )
    return { status: 200, body: { value } }
  }

  async #pool(method: string, path: string, body: Record<string, unknown>): Promise<ArmAnswer> {
    const key = fold(path)
    const there = this.pools.get(key)
    switch (method) {
      case 'PUT':
        return this.#putPool(path, body as unknown as Partial<ArmPool>, there)
      case 'GET': {
        if (there === undefined) throw notFound('ResourceNotFound')
        const pool = shown(there)
        if (this.faults.late_endpoint) delete pool.properties['poolManagementEndpoint']
        this.faults.late_endpoint = false
        return { status: 200, body: pool }
      }
      case 'PATCH': {
        if (there === undefined) throw notFound('ResourceNotFound')
        const { tags, properties = {} } = body as Partial<ArmPool>
        Object.assign(there.properties, properties)
        there.tags = tags ?? there.tags
        return this.#operations.begin(202, 'status', this.faults.polls, async () => undefined)
      }
      case 'DELETE':
        if (there === undefined) return { status: 204 }
        if (!this.faults.deaf_delete) there.properties['provisioningState'] = 'Deleting'
        return this.#operations.begin(202, 'result', this.faults.polls, async () => {
          if (!this.faults.deaf_delete) await this.#drop(key, there)
        })
      default:
        throw new Refusal(405, 'MethodNotAllowed', 'A session pool knows PUT, PATCH, GET and DELETE.')
    }
  }

  #putPool(path: string, body: Partial<ArmPool>, there: ArmPool | undefined): ArmAnswer {
    const [, group = '', , , name = ''] = POOL.exec(path) ?? []
    if (!this.groups.has(fold(group))) throw notFound('ResourceGroupNotFound')
    if (!/^[a-z][a-z0-9]{2,62}$/.test(name))
      throw new Refusal(400, 'InvalidParameter', 'The name does not match ^[a-z][a-z0-9]*$.')
    const { location = '', properties = {}, tags = {} } = body
    if (there !== undefined && there.location !== location)
      throw new Refusal(409, 'InvalidResourceLocation', 'The pool is in another location.')
    const endpoint = there?.properties['poolManagementEndpoint']
    const pool: ArmPool = {
      id: path,
      type: 'Microsoft.App/sessionPools',
      location,
      tags,
      properties: {
        ...properties,
        ...(endpoint === undefined ? {} : { poolManagementEndpoint: endpoint }),
        provisioningState: 'InProgress',
      },
    }
    this.pools.set(fold(path), pool)
    const end = this.faults.fail_pool ? 'Failed' : 'Succeeded'
    const finish = async (): Promise<void> => {
      if (end === 'Succeeded')
        pool.properties['poolManagementEndpoint'] ??= await this.#host.addPool(name, properties)
      pool.properties['provisioningState'] = end
    }
    const status = there === undefined ? 201 : 200
    return { ...this.#operations.begin(status, 'status', this.faults.polls, finish, end), body: shown(pool) }
  }

  async #drop(key: string, { id }: ArmPool): Promise<void> {
    this.pools.delete(key)
    await this.#host.removePool(id.split('/').at(-1) ?? '')
  }

  #role(method: string, path: string, body: Record<string, unknown>): ArmAnswer {
    const [, scope = ''] = ROLE.exec(path) ?? []
    if (!this.pools.has(fold(scope))) throw notFound('ResourceNotFound')
    if (method === 'GET') {
      const role = this.roles.get(fold(path))
      if (role === undefined) throw notFound('RoleAssignmentNotFound')
      return { status: 200, body: shownRole(path, scope, role) }
    }
    if (method !== 'PUT') throw new Refusal(405, 'MethodNotAllowed', 'A role knows PUT and GET here.')
    if (this.faults.principal_late > 0) {
      this.faults.principal_late -= 1
      throw new Refusal(400, 'PrincipalNotFound', 'Principal does not exist in the directory.')
    }
    const { properties } = body as { properties: { principalId: string; roleDefinitionId: string } }
    const same = [...this.roles].find(
      ([id, role]) =>
        id.startsWith(`${fold(scope)}/`) &&
        role['principalId'] === properties.principalId &&
        role['roleDefinitionId'] === properties.roleDefinitionId,
    )
    if (same !== undefined && same[0] !== fold(path))
      throw new Refusal(409, 'RoleAssignmentExists', 'The role assignment already exists.')
    this.roles.set(fold(path), properties)
    return { status: same === undefined ? 201 : 200, body: shownRole(path, scope, properties) }
  }
}

/** Our origin as the caller addressed it. */
const originOf = ({ headers, socket }: IncomingMessage): string =>
  `${socket instanceof TLSSocket ? 'https' : 'http'}://${headers.host ?? ''}`
const notFound = (code: string) => new Refusal(404, code, 'There is no such thing.')
