/**
 * The part of E2B's control API that a backend needs. A create is repeated only after a refusal (429). After
 * a lost answer, the caller searches for the sandbox by its metadata. All other calls may be repeated.
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { createCall, isOk, parsedJson, type Answer } from './control-call.ts'

const PAGES_MAX = 1000

/** Only characters that a header accepts, because an error about others would quote the token. */
const tokenSchema = z
  .string()
  .max(4096)
  .regex(/^[\x21-\x7e]*$/)
  .nullish()
const createdSchema = z.object({
  sandboxID: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  envdAccessToken: tokenSchema,
  /** Opens every port but envd's. */
  trafficAccessToken: tokenSchema,
  domain: z.string().max(255).nullish(),
})
export type Created = z.output<typeof createdSchema>

const listedSchema = z.object({
  sandboxID: createdSchema.shape.sandboxID,
  metadata: z.record(z.string(), z.string()).nullish(),
})
export type Listed = z.output<typeof listedSchema>
/** Null for foreign entries of another form, which must not hide ours. */
const pageSchema = z.array(listedSchema.nullable().catch(null))

export interface ControlApi {
  /**
   * Resolves when the sandbox takes its first call. Throws `backend_unavailable` or `sandbox_open_failed`.
   * After an abort it still waits for the answer, which names the sandbox to kill.
   */
  create(
    wish: { template: string; lifeMs: number; metadata: Record<string, string> },
    signal: AbortSignal,
  ): Promise<Created>
  /** Sets the lifetime from now on. Throws `sandbox_lost` if the sandbox is gone. */
  keep(id: string, lifeMs: number): Promise<void>
  /** Returns a running sandbox with its token and extends its life if needed. Throws `sandbox_lost`. */
  connect(id: string, lifeMs: number, signal: AbortSignal): Promise<Created>
  /** Returns false if there was none. */
  kill(id: string): Promise<boolean>
  /** All running or paused sandboxes whose metadata has these entries. */
  list(metadata: Record<string, string>): Promise<Listed[]>
  /** A short call that checks service and key. */
  ping(signal: AbortSignal): Promise<void>
}

/** Calls `apiKey` for each request. */
export function createControlApi(options: {
  origin: string
  apiKey: () => Promise<string>
  timeoutMs: number
}): ControlApi {
  const call = createCall(options)

  /** A sandbox that is ending (409) counts as gone. */
  async function living(
    path: string,
    id: string,
    lifeMs: number,
    signal: AbortSignal | null,
  ): Promise<Answer> {
    const body = { timeout: seconds(lifeMs) }
    const answer = await call('POST', path, { body, signal, also: [404, 409] })
    if (isOk(answer.status)) return answer
    throw new CofferdamError('sandbox_lost', `E2B: sandbox ${id} is gone.`)
  }

  async function list(metadata: Record<string, string>): Promise<Listed[]> {
    const wanted = Object.entries(metadata)
    const found: Listed[] = []
    let next: string | null = null
    for (let page = 0; page < PAGES_MAX; page++) {
      const query = new URLSearchParams({ state: 'running,paused', limit: '100' })
      // The service refuses an empty filter.
      if (wanted.length > 0) query.set('metadata', metadataQuery(wanted))
      if (next !== null) query.set('nextToken', next)
      const answer = await call('GET', `/v2/sandboxes?${query.toString()}`)
      const all = parsed(pageSchema, answer).filter((one) => one !== null)
      // Filter here too. Callers kill the listed sandboxes, and a service that ignores the filter lists
      // foreign ones.
      found.push(...all.filter((one) => wanted.every(([name, value]) => one.metadata?.[name] === value)))
      next = answer.headers.get('x-next-token')
      if (next === null || next === '') return found
    }
    throw new CofferdamError('backend_unavailable', 'E2B: the list of sandboxes does not end.')
  }

  return {
    async create({ template, lifeMs, metadata }, signal) {
      const body = {
        templateID: template,
        timeout: seconds(lifeMs),
        // The sandbox must end: a paused one costs money and keeps the files.
        autoPause: false,
        // Programs reach the network only through the agent's channel and the worker's proxy. Requests to a
        // port need a token.
        allow_internet_access: false,
        network: { allowPublicTraffic: false },
        metadata,
      }
      return parsed(createdSchema, await call('POST', '/v2/sandboxes', { body, signal, repeats: false }))
    },
    async keep(id, lifeMs) {
      await living(`/sandboxes/${id}/timeout`, id, lifeMs, null)
    },
    connect: async (id, lifeMs, signal) =>
      parsed(createdSchema, await living(`/v2/sandboxes/${id}/connect`, id, lifeMs, signal)),
    kill: async (id) => isOk((await call('DELETE', `/sandboxes/${id}`, { also: [404] })).status),
    list,
    async ping(signal) {
      await call('GET', '/v2/sandboxes?limit=1', { signal })
    },
  }
}

/**
 * Encodes keys and values, and then the pairs as a query. The caller encodes the result once more as a
 * parameter. The service and its SDK do the same (npm e2b 2.51.0, SandboxPaginator).
 */
const metadataQuery = (wanted: readonly [string, string][]): string =>
  new URLSearchParams(wanted.map((pair) => pair.map(encodeURIComponent) as [string, string])).toString()

/**
 * True if the error proves that the service created nothing. After a lost answer, a 408 or a 5xx, a sandbox
 * may exist.
 */
export function madeNone(error: unknown): boolean {
  const status = isCofferdamError(error) ? error.details['status'] : undefined
  return typeof status === 'number' && status !== 408 && status < 500
}

const seconds = (ms: number): number => Math.ceil(ms / 1000)

function parsed<Schema extends z.ZodType>(schema: Schema, { text }: Answer): z.output<Schema> {
  const result = schema.safeParse(parsedJson(text))
  if (result.success) return result.data
  throw new CofferdamError('protocol_violation', 'E2B: an answer is not what its API describes.', {
    cause: result.error,
  })
}
