/** Lists and ends sessions at the service. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import { MANAGEMENT_VERSION, type PoolApi } from './pool-api.ts'
import { json } from './pool-call.ts'
import { saysGone } from './pool-refusals.ts'

/**
 * Five times the most sessions of any pool. The service chooses the page size, so a short page does not end a
 * list.
 */
const SESSIONS_MAX = 3000

const entries = z.array(z.object({ identifier: z.string().max(256) }))
const nextLink = z.string().nullish()
/**
 * `GET /listSessions` of code pools (Azure/azure-rest-api-specs, DynamicSessions.json 2024-10-02-preview to
 * 2025-10-02-preview, `SessionsListResponse`), and `POST /.management/listSessions`
 * (MicrosoftDocs/azure-docs, sessions-custom-container.md).
 */
const pageSchema = z.union([
  z.object({ sessions: entries, nextLink }),
  z.object({ value: entries, nextLink }).transform(({ value, ...more }) => ({ sessions: value, ...more })),
])

export interface SessionsAtPool {
  /** Ends a session and waits until the service says that it is gone. Returns false if there was none. */
  end(identifier: string): Promise<boolean>
  list(signal?: AbortSignal): Promise<string[]>
}

/** Creates the calls, which differ between the two kinds of pool. */
export function createSessionsAtPool(api: PoolApi, kind: 'container' | 'interpreter'): SessionsAtPool {
  const query = { 'api-version': MANAGEMENT_VERSION }
  return {
    end: (identifier) =>
      // A repeated call finds no session if the first one ended it, so a missing session is no error.
      api.ending(identifier, async () => {
        const end =
          kind === 'container'
            ? ({ method: 'POST', path: '/.management/stopSession' } as const)
            : ({ method: 'DELETE', path: '/session' } as const)
        try {
          // The identifier is an ordinary parameter here: this call does not go to the session.
          await api.call({ ...end, query: { ...query, identifier }, isRepeatable: true })
          return true
        } catch (error) {
          if (saysGone(error)) return false
          throw error
        }
      }),
    async list(signal) {
      const found: string[] = []
      while (found.length <= SESSIONS_MAX) {
        const answer = await api.call({
          method: kind === 'container' ? 'POST' : 'GET',
          path: kind === 'container' ? '/.management/listSessions' : '/listSessions',
          // Request pages by offset: following a link would send the token to an unchecked address.
          query: { ...query, skip: String(found.length) },
          isRepeatable: true,
          ...(signal === undefined ? {} : { signal }),
        })
        const parsed = pageSchema.safeParse(json(answer.body))
        if (!parsed.success)
          throw new CofferdamError(
            'protocol_violation',
            'Azure: the pool’s list of sessions has another shape than its API describes.',
            { cause: parsed.error },
          )
        const { sessions, nextLink: next } = parsed.data
        found.push(...sessions.map(({ identifier }) => identifier))
        if (next == null || sessions.length === 0) return found
      }
      throw new CofferdamError('protocol_violation', 'Azure: a list of sessions that does not end.')
    },
  }
}
