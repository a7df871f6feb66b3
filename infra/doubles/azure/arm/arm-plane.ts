/**
 * The management plane of the double: resource groups, session pools with their long-running operations, role assignments.
 * Knobs make operations slow, fail them, or lose their answers. Paths and bodies as in ARM's REST reference.
 */
import { randomUUID } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Dropped, jsonOf, Refusal, reply } from '../exchange.ts'
import { ARM_AUDIENCE, type Identity } from '../identity.ts'

/** What a group holds besides pools; tests put one there as somebody else's. */
export interface ArmResource {
  id: string
  type: string
  tags: Record<string, string>
}

export interface ArmPool extends ArmResource {
  location: string
  properties: Record<string, unknown>
}

interface Operation {
  /** Answers of `InProgress` before the end. */
  left: number
  status: 'Succeeded' | 'Failed'
  finish(): void
}

export interface ArmFaults {
  /** Answers of `InProgress` of every operation. */
  polls: number
  /** Makers of pools end `Failed`. */
  fail_pool: boolean
  /** DELETE of a pool is answered, and does nothing. */
  deaf_delete: boolean
  /** The next so many calls whose `METHOD path` contains this are dropped after they took effect. */
  drop_after: { contains: string; times: number } | null
  /** The next so many calls are answered with 429 and no Retry-After. */
  throttle: number
  /** Pools report their management endpoint only from the second GET on. */
  late_endpoint: boolean
  /** A role for a principal that is just made: so many answers of PrincipalNotFound. */
  principal_late: number
  /** In place of a URL of this server in LRO headers. */
  foreign_poll: string | null
}

const GROUP = /^\/subscriptions\/([\w-]+)\/resourcegroups\/([\w.()-]+)$/i
const RESOURCES = /^\/subscriptions\/([\w-]+)\/resourcegroups\/([\w.()-]+)\/resources$/i
const POOL =
  /^(\/subscriptions\/([\w-]+)\/resourcegroups\/([\w.()-]+))\/providers\/microsoft\.app\/sessionpools\/([\w-]+)$/i
const ROLE = /^(.+\/sessionpools\/[\w-]+)\/providers\/microsoft\.authorization\/roleassignments\/([\w-]+)$/i
const OPERATION =
  /^\/subscriptions\/[\w-]+\/providers\/Microsoft\.App\/locations\/[\w-]+\/operationStatuses\/([\w-]+)$/
const RESULT = /^\/subscriptions\/[\w-]+\/operationresults\/([\w-]+)$/

/** Makes and takes away what stands behind a pool; resolves to its management endpoint. */
export interface PoolHost {
  addPool(name: string, properties: Record<string, unknown>): Promise<string>
  removePool(name: string): Promise<void>
}

export class ArmPlane {
  readonly groups = new Map<string, { id: string; location: string; tags: Record<string, string> }>()
  readonly pools = new Map<string, ArmPool>()
  readonly others: ArmResource[] = []
  /** Role assignments by id. */
  readonly roles = new Map<string, Record<string, unknown>>()
  readonly faults: ArmFaults = {
    polls: 1,
    fail_pool: false,
    deaf_delete: false,
    drop_after: null,
    throttle: 0,
    late_endpoint: false,
    principal_late: 0,
    foreign_poll: null,
  }
  readonly #identity: Identity
  readonly #origin: () => string
  readonly #host: PoolHost
  readonly #operations = new Map<string, Operation>()

  constructor(deps: { identity: Identity; origin: () => string; host: PoolHost }) {
    this.#identity = deps.identity
    this.#origin = deps.origin
    this.#host = deps.host
  }

  /** False for paths of other planes. */
  async handle(request: IncomingMessage, response: ServerResponse): Promise<boolean> {
    const url = new URL(request.url ?? '/', 'http://double')
    const path = url.pathname
    if (![GROUP, RESOURCES, POOL, ROLE, OPERATION, RESULT].some((known) => known.test(path))) return false
    const why = this.#identity.refusal(request, ARM_AUDIENCE)
    if (why !== null) throw new Refusal(401, 'InvalidAuthenticationToken', why)
    if (!url.searchParams.has('api-version'))
      throw new Refusal(400, 'MissingApiVersionParameter', 'The api-version query parameter is required.')
    if (this.faults.throttle > 0) {
      this.faults.throttle -= 1
      throw new Refusal(429, 'TooManyRequests', 'The request is being throttled.')
    }
    const body = request.method === 'PUT' ? await jsonOf(request) : {}
    const answer = await this.#answer(request.method ?? '', path, body)
    const { drop_after: drop } = this.faults
    if (drop !== null && drop.times > 0 && `${request.method} ${path}`.includes(drop.contains)) {
      drop.times -= 1
      throw new Dropped()
    }
    reply(response, answer.status, answer.body, answer.headers)
    return true
  }

  async #answer(method: string, path: string, body: Record<string, unknown>): Promise<Answer> {
    const [, , group] = RESOURCES.exec(path) ?? []
    if (group !== undefined) return this.#list(path.replace(/\/resources$/i, ''))
    if (ROLE.test(path)) return this.#role(method, path, body)
    if (POOL.test(path)) return await this.#pool(method, path, body)
    if (GROUP.test(path)) return await this.#group(method, path, body)
    const [, status] = OPERATION.exec(path) ?? []
    if (status !== undefined) return this.#poll(status, true)
    return this.#poll(RESULT.exec(path)?.[1] ?? '', false)
  }

  #list(group: string): Answer {
    if (!this.groups.has(fold(group))) throw notFound('ResourceGroupNotFound')
    const within = [...this.pools.values(), ...this.others].filter(({ id }) =>
      fold(id).startsWith(`${fold(group)}/`),
    )
    return { status: 200, body: { value: within.map(({ id, type, tags }) => ({ id, type, tags })) } }
  }

  async #group(method: string, path: string, body: Record<string, unknown>): Promise<Answer> {
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
        return this.#begin(202, 'result', async () => {
          for (const [key, pool] of this.pools)
            if (key.startsWith(`${fold(path)}/`)) await this.#drop(key, pool)
          this.groups.delete(fold(path))
        })
    }
  }

  async #pool(method: string, path: string, body: Record<string, unknown>): Promise<Answer> {
    const [, group = '', , , name = ''] = POOL.exec(path) ?? []
    const key = fold(path)
    const there = this.pools.get(key)
    if (method === 'GET') {
      if (there === undefined) throw notFound('ResourceNotFound')
      const shown = structuredClone(there)
      if (this.faults.late_endpoint) delete shown.properties['poolManagementEndpoint']
      this.faults.late_endpoint = false
      return { status: 200, body: { ...shown, name } }
    }
    if (method === 'DELETE') {
      if (there === undefined) return { status: 204 }
      if (!this.faults.deaf_delete) there.properties['provisioningState'] = 'Deleting'
      return this.#begin(202, 'result', async () => {
        if (!this.faults.deaf_delete) await this.#drop(key, there)
      })
    }
    if (!this.groups.has(fold(group))) throw notFound('ResourceGroupNotFound')
    if (!/^[a-z][a-z0-9]{2,62}$/.test(name))
      throw new Refusal(400, 'InvalidParameter', 'The name does not match ^[a-z][a-z0-9]*$.')
    const { location, properties, tags = {} } = body as unknown as Omit<ArmPool, 'tags'> & Partial<ArmPool>
    const pool: ArmPool = {
      id: path,
      type: 'Microsoft.App/sessionPools',
      location,
      tags,
      properties: { ...properties, provisioningState: 'InProgress' },
    }
    this.pools.set(key, pool)
    const failing = this.faults.fail_pool
    const answer = this.#begin(
      201,
      'status',
      async () => {
        pool.properties['provisioningState'] = failing ? 'Failed' : 'Succeeded'
        if (!failing) pool.properties['poolManagementEndpoint'] = await this.#host.addPool(name, properties)
      },
      failing ? 'Failed' : 'Succeeded',
    )
    return { ...answer, body: { ...pool, name } }
  }

  async #drop(key: string, { id }: ArmPool): Promise<void> {
    this.pools.delete(key)
    await this.#host.removePool(id.split('/').at(-1) ?? '')
  }

  #role(method: string, path: string, body: Record<string, unknown>): Answer {
    const [, scope = ''] = ROLE.exec(path) ?? []
    if (method !== 'PUT') throw new Refusal(405, 'MethodNotAllowed', 'The double knows PUT of a role.')
    if (!this.pools.has(fold(scope))) throw notFound('ResourceNotFound')
    if (this.faults.principal_late > 0) {
      this.faults.principal_late -= 1
      throw new Refusal(400, 'PrincipalNotFound', 'Principal does not exist in the directory.')
    }
    const { properties } = body as { properties: { principalId: string; roleDefinitionId: string } }
    const same = [...this.roles].find(
      ([id, role]) =>
        id.startsWith(fold(scope)) &&
        role['principalId'] === properties.principalId &&
        role['roleDefinitionId'] === properties.roleDefinitionId,
    )
    if (same !== undefined && same[0] !== fold(path))
      throw new Refusal(409, 'RoleAssignmentExists', 'The role assignment already exists.')
    this.roles.set(fold(path), properties)
    return { status: same === undefined ? 201 : 200, body: { id: path, properties } }
  }

  /** Starts an operation; its end comes with the poll after `faults.polls` others. */
  #begin(
    status: number,
    kind: 'status' | 'result',
    finish: () => Promise<void>,
    end: Operation['status'] = 'Succeeded',
  ): Answer {
    const id = randomUUID()
    let ended = false
    this.#operations.set(id, {
      left: this.faults.polls,
      status: end,
      finish: () => {
        if (!ended) this.#finishing.push(finish())
        ended = true
      },
    })
    const origin = this.faults.foreign_poll ?? this.#origin()
    const place = `${origin}/subscriptions/00000000-0000-0000-0000-000000000000`
    const headers: Record<string, string> =
      kind === 'status'
        ? {
            'Azure-AsyncOperation': `${place}/providers/Microsoft.App/locations/double/operationStatuses/${id}?api-version=2025-07-01`,
          }
        : { Location: `${place}/operationresults/${id}?api-version=2021-04-01` }
    return { status, headers: { ...headers, 'Retry-After': '0' } }
  }

  readonly #finishing: Promise<void>[] = []

  async #poll(id: string, isStatus: boolean): Promise<Answer> {
    const operation = this.#operations.get(id)
    if (operation === undefined) throw notFound('OperationNotFound')
    operation.left -= 1
    const isOver = operation.left < 0
    if (isOver) operation.finish()
    await Promise.all(this.#finishing.splice(0))
    if (!isStatus) {
      if (isOver) return { status: 200 }
      const Location = `${this.#origin()}/subscriptions/0/operationresults/${id}?api-version=2021-04-01`
      return { status: 202, headers: { Location, 'Retry-After': '0' } }
    }
    const error = { code: 'PoolFailed', message: 'The pool could not be made.' }
    return {
      status: 200,
      headers: { 'Retry-After': '0' },
      body: {
        id,
        status: isOver ? operation.status : 'InProgress',
        ...(isOver && operation.status === 'Failed' ? { error } : {}),
      },
    }
  }
}

interface Answer {
  status: number
  body?: unknown
  headers?: Record<string, string>
}

const fold = (id: string): string => id.toLowerCase()
const withState = (group: object) => ({ ...group, properties: { provisioningState: 'Succeeded' } })
const notFound = (code: string) => new Refusal(404, code, 'There is no such thing.')
