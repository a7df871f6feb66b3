/** Names who makes a change, for the triggers and functions that write events. */
import { sql, type QueryExecutorProvider } from 'kysely'

/** Who makes a change: a name such as `key:ID`, with `via: 'ui'` when a person made it on the dashboard. */
export type Author = string | { actor: string; via: 'ui' }

/** The longest name of an author in an event. */
const MAX_NAME = 200

/** The name alone, cut to the length that events keep. */
export const authorName = (author: Author): string =>
  (typeof author === 'string' ? author : author.actor).slice(0, MAX_NAME) || 'unknown'

/** Names the author of the changes in `tx`. */
export async function nameActor(
  tx: QueryExecutorProvider,
  { actor, source }: { actor: Author; source: 'api' | 'reconciler' },
): Promise<void> {
  const via = typeof actor === 'string' ? '' : actor.via
  await sql`
    select set_config('app.actor', ${authorName(actor)}, true), set_config('app.source', ${source}, true),
      set_config('app.via', ${via}, true)`.execute(tx)
}
