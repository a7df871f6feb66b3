/** Sessions in the service's form. */
import type { ServerResponse } from 'node:http'
import type { Faults } from './faults.ts'
import type { Session, SessionPool } from './session-pool.ts'
import { answer } from './spoil-answer.ts'

/** A session as in calls of code pools, or as in `/.management`, which names the end differently. */
export function shown(
  session: Session,
  pool: SessionPool,
  of: 'code' | 'management',
): Record<string, unknown> {
  const ends = new Date(session.lastAccessedAt + pool.cooldownMs).toISOString()
  return {
    identifier: session.identifier,
    etag: session.etag,
    createdAt: new Date(session.createdAt).toISOString(),
    lastAccessedAt: new Date(session.lastAccessedAt).toISOString(),
    ...(of === 'code' ? { expireAt: ends } : { expiresAt: ends }),
  }
}

/** Answers with a page of all sessions. */
export async function listSessions(
  pool: SessionPool,
  faults: Faults,
  response: ServerResponse,
  of: 'code' | 'management',
): Promise<void> {
  const { url = '/', headers } = response.req
  const asked = new URL(url, `http://${headers.host ?? 'double'}`)
  const skip = Number(asked.searchParams.get('skip') ?? 0)
  const all = await pool.list()
  const end = skip + pool.page
  const page = all.slice(skip, end).map((session) => shown(session, pool, of))
  asked.searchParams.set('skip', String(end))
  const more = all.length > end ? { nextLink: asked.href } : {}
  const body = of === 'code' ? { sessions: page } : { value: page, count: page.length }
  answer(faults, response, 200, { ...body, ...more })
}
