/** How the service describes sessions in its answers. */
import { pageOf } from './paging.ts'
import type { Session } from './sessions.ts'

const named = ({ id, interpreter }: Session): object => ({
  codeInterpreterIdentifier: interpreter,
  sessionId: id,
})

/** The answer to a start. */
export const summary = (session: Session): object => ({
  ...named(session),
  createdAt: session.createdAt.toISOString(),
})

/** The answer to a stop. */
export const stopped = (session: Session): object => ({
  ...named(session),
  lastUpdatedAt: session.lastUpdatedAt.toISOString(),
})

const status = ({ ended }: Session): string => (ended === null ? 'READY' : 'TERMINATED')

/** The answer to a question about one session. */
export const detail = (session: Session): object => ({
  ...summary(session),
  name: session.name,
  sessionTimeoutSeconds: session.timeoutSeconds,
  status: status(session),
})

/** The answer to a list, with the paging and the filter that the caller asked for. */
export function page(all: readonly Session[], asked: Record<string, unknown>): object {
  const wanted = all.filter((session) => asked['status'] === undefined || asked['status'] === status(session))
  const { page: sessions, ...more } = pageOf(wanted, asked)
  return {
    items: sessions.map((session) => ({
      ...summary(session),
      name: session.name,
      status: status(session),
      lastUpdatedAt: session.lastUpdatedAt.toISOString(),
    })),
    ...more,
  }
}
