/** The code interpreters of the double's account: the control plane creates, lists and deletes them here. */
import { createHash, randomBytes } from 'node:crypto'
import { Failure } from '../failure.ts'
import { pageOf, refuseUnkept } from '../paging.ts'
import type { Knobs } from './knobs.ts'
import type { Roles } from './roles.ts'

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const NAME = /^[a-zA-Z][a-zA-Z0-9_]{0,47}$/
const TOKEN = /^(?=.{33,256}$)[a-zA-Z0-9](-*[a-zA-Z0-9])*$/
const MODES: readonly unknown[] = ['PUBLIC', 'SANDBOX', 'VPC']

interface Interpreter {
  id: string
  name: string
  networkConfiguration: { networkMode: string }
  executionRoleArn: string | undefined
  description: unknown
  createdAtMs: number
  failed: boolean
  deletedAtMs: number | null
}

type Json = Record<string, unknown>

export class Stock {
  readonly #all = new Map<string, Interpreter>()
  readonly #tokens = new Map<string, { digest: string; id: string }>()
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>()
  readonly #knobs: Knobs
  readonly #roles: Roles
  readonly #arnPrefix: string
  /** Number of interpreters ever created. */
  created = 0

  constructor(knobs: Knobs, roles: Roles, { region, account }: { region: string; account: string }) {
    this.#knobs = knobs
    this.#roles = roles
    this.#arnPrefix = `arn:aws:bedrock-agentcore:${region}:${account}:code-interpreter-custom/`
  }

  create(asked: Json): { codeInterpreterId: string } {
    this.#take('create')
    const { name, clientToken: token, executionRoleArn: role } = asked
    const network = asked['networkConfiguration'] as { networkMode?: unknown } | undefined
    if (typeof name !== 'string' || !NAME.test(name)) throw invalid('name')
    if (token !== undefined && (typeof token !== 'string' || !TOKEN.test(token))) throw invalid('clientToken')
    const mode = network?.networkMode
    if (typeof mode !== 'string' || !MODES.includes(mode)) throw invalid('networkConfiguration')
    refuseUnkept(asked)
    if (mode === 'VPC' && !('vpcConfig' in (network ?? {}))) throw invalid('networkConfiguration.vpcConfig')

    const { clientToken: _, ...rest } = asked
    const digest = createHash('sha256').update(JSON.stringify(rest)).digest('hex')
    const known = typeof token === 'string' ? this.#tokens.get(token) : undefined
    if (known !== undefined) {
      if (known.digest !== digest)
        throw new Failure(
          'ValidationException',
          'The token was used with other parameters',
          'IdempotentParameterMismatchException',
        )
      return this.#made(this.#all.get(known.id) as Interpreter)
    }
    if (this.#present().some((one) => one.name === name))
      throw new Failure('ConflictException', `A code interpreter named ${name} exists`)
    if (this.#present().length >= this.#knobs.quota)
      throw new Failure('ServiceQuotaExceededException', 'Code interpreters per account exceeded')
    if (role !== undefined) this.#roles.checkAssumable(role)
    const made: Interpreter = {
      id: `${name}-${suffix()}`,
      name,
      networkConfiguration: { ...network, networkMode: mode },
      executionRoleArn: typeof role === 'string' ? role : undefined,
      description: asked['description'],
      createdAtMs: Date.now(),
      failed: this.#knobs.failCreations > 0,
      deletedAtMs: null,
    }
    if (made.failed) this.#knobs.failCreations -= 1
    this.#all.set(made.id, made)
    this.created += 1
    if (typeof token === 'string') this.#tokens.set(token, { digest, id: made.id })
    return this.#made(made)
  }

  get(id: string): object {
    const one = this.#shown().find((shown) => shown.id === id)
    if (one === undefined) throw new Failure('ResourceNotFoundException', `Code interpreter ${id} not found`)
    return {
      ...this.#summary(one),
      networkConfiguration: one.networkConfiguration,
      ...(one.executionRoleArn === undefined ? {} : { executionRoleArn: one.executionRoleArn }),
      ...(one.failed ? { failureReason: 'failed on purpose' } : {}),
    }
  }

  list(query: URLSearchParams): object {
    const type = query.get('type') ?? 'CUSTOM'
    if (type !== 'CUSTOM')
      throw new Failure(
        'ValidationException',
        `this double lists no ${type} interpreters`,
        'FieldValidationFailed',
      )
    const asked = { maxResults: query.get('maxResults'), nextToken: query.get('nextToken') }
    const { page, ...more } = pageOf(this.#shown(), asked, this.#knobs.pageMax)
    return { codeInterpreterSummaries: page.map((one) => this.#summary(one)), ...more }
  }

  delete(id: string): object {
    this.#take('delete')
    const one = this.#shown().find((shown) => shown.id === id)
    if (one === undefined) throw new Failure('ResourceNotFoundException', `Code interpreter ${id} not found`)
    if (one.deletedAtMs !== null)
      throw new Failure('ConflictException', `Code interpreter ${id} is being deleted`)
    one.deletedAtMs = Date.now()
    return { codeInterpreterId: id, status: 'DELETING', lastUpdatedAt: new Date().toISOString() }
  }

  /** IDs of the interpreters in which a session can be started now. */
  ready(): string[] {
    return [...this.#all.values()].filter((one) => this.#status(one) === 'READY').map(({ id }) => id)
  }

  /** Moves an interpreter's creation time into the past. */
  age(id: string, byMs: number): void {
    const one = this.#all.get(id)
    if (one !== undefined) one.createdAtMs -= byMs
  }

  #made(one: Interpreter) {
    const { id: codeInterpreterId, createdAtMs } = one
    return {
      codeInterpreterId,
      codeInterpreterArn: this.#arnPrefix + codeInterpreterId,
      createdAt: new Date(createdAtMs).toISOString(),
      status: 'CREATING',
    }
  }

  #summary(one: Interpreter): object {
    return {
      ...this.#made(one),
      name: one.name,
      description: one.description,
      status: this.#status(one),
      lastUpdatedAt: new Date(one.deletedAtMs ?? one.createdAtMs).toISOString(),
    }
  }

  #status(one: Interpreter): string {
    if (one.deletedAtMs !== null)
      return Date.now() - one.deletedAtMs >= this.#knobs.deletedAfterMs ? 'DELETED' : 'DELETING'
    if (Date.now() - one.createdAtMs < this.#knobs.readyAfterMs) return 'CREATING'
    return one.failed ? 'CREATE_FAILED' : 'READY'
  }

  /** Interpreters that occupy their name and count toward the quota. */
  #present(): Interpreter[] {
    return [...this.#all.values()].filter((one) => this.#status(one) !== 'DELETED')
  }

  #shown(): Interpreter[] {
    return this.#present().filter((one) => Date.now() - one.createdAtMs >= this.#knobs.visibleAfterMs)
  }

  #take(change: string): void {
    const { changesPerSecond: rate } = this.#knobs
    const now = performance.now()
    const bucket = this.#buckets.get(change) ?? { tokens: rate, atMs: now }
    const tokens = Math.min(rate, bucket.tokens + ((now - bucket.atMs) / 1000) * rate) - 1
    this.#buckets.set(change, { tokens: Math.max(0, tokens), atMs: now })
    if (tokens < 0) throw new Failure('ThrottlingException', 'Rate exceeded')
  }
}

const invalid = (field: string): Failure =>
  new Failure('ValidationException', `${field} does not satisfy its constraint`, 'FieldValidationFailed')

const suffix = (): string =>
  [...randomBytes(10)].map((byte) => ALPHABET[byte % ALPHABET.length] ?? '').join('')
