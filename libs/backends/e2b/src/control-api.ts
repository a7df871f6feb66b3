/**
 * E2B's control API as far as a backend needs it. A create is sent again only when it was refused (429), never when its
 * answer was lost: whoever asked for it then looks for it by its metadata. All other calls may be repeated.
 */
import { CofferdamError, isCofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { createCall, isOk, parsedJson, type Answer } from './control-call.ts'

const PAGES_MAX = 1000

/** Goes into a header as it is; what no header takes would be quoted by the error of whoever tries. */
const tokenSchema = z
  .string()
  .max(4096)
  .regex(/^[\x21-\x7e]*$/)
  .nullish()
const createdSchema = z.object({
  sandboxID: z.string().regex(/^[A-Za-z0-9-]{1,64}$/),
  envdAccessToken: tokenSchema,
  /** Opens all ports but envd's. */
  trafficAccessToken: tokenSchema,
  domain: z.string().max(255).nullish(),
})
export type Created = z.output<typeof createdSchema>

const listedSchema = z.object({
  sandboxID: createdSchema.shape.sandboxID,
  metadata: z.record(z.string(), z.string()).nullish(),
})
export type Listed = z.output<typeof listedSchema>
/** Null for an entry that is not as ours are: another's must not hide them. */
const pageSchema = z.array(listedSchema.nullable().catch(null))

export interface ControlApi {
  /**
   * Resolves when the sandbox takes its first call. Throws `backend_unavailable` | `sandbox_open_failed`. What was sent is waited for
   * also when `signal` aborts: its answer names what must be killed.
   */
  create(
    wish: { template: string; lifeMs: number; metadata: Record<string, string> },
    signal: AbortSignal,
  ): Promise<Created>
  /** Lets it live so long from now on. Throws `sandbox_lost` when it is gone. */
  keep(id: string, lifeMs: number): Promise<void>
  /** One that runs, with what opens its envd; it lives so long from now on at least. Throws `sandbox_lost` when it is gone. */
  connect(id: string, lifeMs: number, signal: AbortSignal): Promise<Created>
  /** False when there was none (any more). */
  kill(id: string): Promise<boolean>
  /** All running or paused ones whose metadata has these entries. */
  list(metadata: Record<string, string>): Promise<Listed[]>
  /** One short call, to see whether service and key are good. */
  ping(signal: AbortSignal): Promise<void>
}

/** Creates a client; `apiKey` is asked for at every call. */
export function createControlApi(options: {
  origin: string
  apiKey: () => Promise<string>
  timeoutMs: number
}): ControlApi {
  const call = createCall(options)

  /** Of one that is going (409) no more is to be had than of one that is gone. */
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
      // An empty one is refused.
      if (wanted.length > 0) query.set('metadata', metadataQuery(wanted))
      if (next !== null) query.set('nextToken', next)
      const answer = await call('GET', `/v2/sandboxes?${query.toString()}`)
      const all = parsed(pageSchema, answer).filter((one) => one !== null)
      // Looked at again: what is listed is killed, and a service that knows no filter would hand over another's.
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
        // Its end is its end: what is paused instead costs on and holds the files.
        autoPause: false,
        // The only way out is the worker's proxy, over the agent's channel; and nobody comes in but with the token.
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
 * Keys and values are encoded, then the pairs as a query of its own, and that once more as a parameter: so
 * the service reads it, and its SDK writes it (npm e2b 2.51.0, SandboxPaginator).
 */
const metadataQuery = (wanted: readonly [string, string][]): string =>
  new URLSearchParams(wanted.map((pair) => pair.map(encodeURIComponent) as [string, string])).toString()

/** True for what the service answered without making anything; a gateway's 408 or 5xx says nothing of what became of it behind. */
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
