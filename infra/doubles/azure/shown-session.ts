/** Sessions as the service shows them. */
import type { ServerResponse } from 'node:http'
import type { Faults } from './faults.ts'
import type { Session, SessionPool } from './session-pool.ts'
import { answer } from './spoil-answer.ts'

/** A session as a list or a look shows it; the two families name the end differently. */
export function shown(session: Session, pool: SessionPool, isOld: boolean): Record<string, unknown> {
  const ends = new Date(session.lastAccessedAt + pool.cooldownMs).toISOString()
  return {
    identifier: session.identifier,
    etag: session.etag,
    createdAt: new Date(session.createdAt).toISOString(),
    lastAccessedAt: new Date(session.lastAccessedAt).toISOString(),
    ...(isOld ? { expireAt: ends } : { expiresAt: ends }),
  }
}

/** Answers with a page of all of them. */
export async function listSessions(
  pool: SessionPool,
  faults: Faults,
  response: ServerResponse,
  query: URLSearchParams,
): Promise<void> {
  const skip = Number(query.get('skip') ?? 0)
  const all = await pool.list()
  const end = skip + pool.page
  const value = all.slice(skip, end).map((session) => shown(session, pool, false))
  const more = all.length > end ? { nextLink: `?skip=${end}` } : {}
  answer(faults, response, 200, { value, count: value.length, ...more })
}
