/** Requests to `http_pod.py` in a session, by any transport. Each may be repeated if its answer was lost. */
import { CofferdamError } from '@cofferdam/contract'
import type { Kept } from '@cofferdam/sandbox/guest'
import { z } from 'zod'
import { RUNNING_PATIENCE_MS, type PoolApi } from './pool-api.ts'
import { json, type PoolAnswer } from './pool-call.ts'

export interface PodCalls {
  /**
   * Attaches to the pod. `boot` is the incarnation that must answer, or null for a fresh pod. Throws
   * `sandbox_lost` if it is another incarnation or belongs to another worker. Nothing was done then.
   */
  attach(
    wish: { fence: number; boot: string | null; options: readonly string[] },
    signal: AbortSignal,
  ): Promise<{ boot: string }>
  /** Sends bytes with numbers from `at` on. Returns how many bytes the agent has now. */
  send(at: number, bytes: Uint8Array, signal: AbortSignal): Promise<number>
  /** Returns the agent's bytes from `at` on; waits a little for them. The pod drops those before `at`. */
  receive(at: number, waitMs: number, signal: AbortSignal): Promise<Buffer>
  /** Ends the turn of a clean agent, so that another worker can attach. */
  release(at: number, keep: Kept): Promise<void>
}

/** One request to the pod: a path below /v1, its query, its body. */
export interface PodQuestion {
  path: 'attach' | 'send' | 'receive' | 'release'
  query: Record<string, string>
  body: Uint8Array
  /** How long the pod may take. */
  waitMs: number
  signal?: AbortSignal
}

/** Sends a request. Resolves with the pod's answer, including refusals. */
export type AskPod = (question: PodQuestion) => Promise<Pick<PoolAnswer, 'status' | 'body'>>

const refusedSchema = z.object({ pod: z.string(), error: z.string().max(1000) })
const attachedSchema = z.object({ pod: z.string().regex(/^[0-9a-f]{32}$/), fresh: z.boolean() })
const sentSchema = z.object({ pod: z.string(), at: z.int().nonnegative() })

/** Returns true if the answer can come only from http_pod.py. */
const isPods = ({ type, body }: PoolAnswer): boolean =>
  type.includes('json') && refusedSchema.safeParse(json(body)).success

/** Creates the calls of one channel. Its name cannot be guessed in the container. */
export function createPodCalls(ask: AskPod, channel: string): PodCalls {
  async function asked(question: PodQuestion): Promise<Buffer> {
    const { status, body } = await ask(question)
    if (status === 200) return body
    const refused = refusedSchema.safeParse(json(body))
    throw new CofferdamError(
      'sandbox_lost',
      refused.success
        ? `Azure: the agent in the session says: ${refused.data.error}.`
        : 'Azure: the session is another one.',
    )
  }
  const at = (n: number): Record<string, string> => ({ channel, at: String(n) })
  const NOTHING = new Uint8Array()

  return {
    async attach({ fence, boot, options }, signal) {
      const body = Buffer.from(JSON.stringify({ channel, fence, boot, options }))
      const answer = await asked({ path: 'attach', query: {}, body, waitMs: 5000, signal })
      return { boot: parsed(attachedSchema, answer).pod }
    },
    async send(from, bytes, signal) {
      const answer = await asked({ path: 'send', query: at(from), body: bytes, waitMs: 10_000, signal })
      const has = parsed(sentSchema, answer).at
      if (has < from || has > from + bytes.length)
        throw new CofferdamError('protocol_violation', 'Azure: the agent has bytes that nobody sent.')
      return has
    },
    receive: (from, waitMs, signal) =>
      asked({ path: 'receive', query: { ...at(from), wait: String(waitMs) }, body: NOTHING, waitMs, signal }),
    async release(from, keep) {
      await asked({ path: 'release', query: { ...at(from), keep }, body: NOTHING, waitMs: 5000 })
    },
  }
}

function parsed<T>(schema: z.ZodType<T>, answer: Buffer): T {
  const found = schema.safeParse(json(answer))
  if (!found.success)
    throw new CofferdamError(
      'protocol_violation',
      'Azure: the agent in the session answers with something else.',
    )
  return found.data
}

/** Sends requests to a custom container. The service forwards any path to the container's port. */
export function askContainer(api: PoolApi, identifier: string, timeoutMs: number): AskPod {
  return ({ path, query, body, waitMs, signal }) =>
    api.call(
      {
        method: 'POST',
        path: `/v1/${path}`,
        query,
        identifier,
        bytes: body,
        isRepeatable: true,
        allocates: path === 'attach',
        isPoll: path === 'receive',
        // A program may be running, so these calls are retried for longer. Attach and release are not.
        ...(path === 'receive' || path === 'send' ? { patienceMs: RUNNING_PATIENCE_MS } : {}),
        timeoutMs: timeoutMs + waitMs,
        ...(signal === undefined ? {} : { signal }),
      },
      isPods,
    )
}
