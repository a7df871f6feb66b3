/** What is asked of `http_pod.py` in a session, however the question gets there. Every call may be made again when its answer was lost. */
import { CofferdamError } from '@cofferdam/contract'
import type { Kept } from '@cofferdam/sandbox/guest'
import { z } from 'zod'
import { RUNNING_PATIENCE_MS, type PoolApi } from './pool-api.ts'
import { json, type PoolAnswer } from './pool-call.ts'

export interface PodCalls {
  /**
   * Takes the pod. `boot` is the incarnation that must answer, null for a fresh one. Throws `sandbox_lost` when it is another or
   * somebody else's, and then nothing was done.
   */
  attach(
    wish: { fence: number; boot: string | null; options: readonly string[] },
    signal: AbortSignal,
  ): Promise<{ boot: string }>
  /** Bytes for the agent, the first of them its `at`-th. Resolves to how many it has now. */
  send(at: number, bytes: Uint8Array, signal: AbortSignal): Promise<number>
  /** What the agent wrote from its `at`-th byte on; waits a little when there is nothing. What came before is forgotten. */
  receive(at: number, waitMs: number, signal: AbortSignal): Promise<Buffer>
  /** Ends the turn of a clean agent, so that another may attach. */
  release(at: number, keep: Kept): Promise<void>
}

/** One question to the pod: a path below /v1, its query, its body. */
export interface PodQuestion {
  path: 'attach' | 'send' | 'receive' | 'release'
  query: Record<string, string>
  body: Uint8Array
  /** How long the pod itself may take. */
  waitMs: number
  signal?: AbortSignal
}

/** Carries a question; resolves with whatever the pod answered, its refusals too. */
export type AskPod = (question: PodQuestion) => Promise<Pick<PoolAnswer, 'status' | 'body'>>

const refusedSchema = z.object({ pod: z.string(), error: z.string().max(1000) })
const attachedSchema = z.object({ pod: z.string().regex(/^[0-9a-f]{32}$/), fresh: z.boolean() })
const sentSchema = z.object({ pod: z.string(), at: z.int().nonnegative() })

/** True for an answer that only our program in the container gives. */
const isPods = ({ type, body }: PoolAnswer): boolean =>
  type.includes('json') && refusedSchema.safeParse(json(body)).success

/** Creates the calls of one channel, which nobody in the container can guess. */
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

/** Questions to a custom container: the service forwards any path to the container's port. */
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
        // A program runs behind these; taking and giving back the pod is the queue's to wait for.
        ...(path === 'receive' || path === 'send' ? { patienceMs: RUNNING_PATIENCE_MS } : {}),
        timeoutMs: timeoutMs + waitMs,
        ...(signal === undefined ? {} : { signal }),
      },
      isPods,
    )
}
