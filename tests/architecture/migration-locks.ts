/**
 * Finds statements of a migration that would lock a large table for longer than a moment, because they read
 * or rewrite all its rows. Matches words of SQL, so it works only for the style of our migrations.
 */

/** Tables that grow with the work of a fleet: 10 million rows and more. */
const LARGE = [
  'sandbox_invocations',
  'results',
  'attempts',
  'routine_runs',
  'routine_events',
  'tenant_policy_events',
  'workspace_contents',
] as const

interface Rule {
  found: RegExp
  /** What is wrong, and what to write instead. */
  say: string
}

/** Each is applied to one statement on a large table, in lower case and without comments. */
const RULES: readonly Rule[] = [
  {
    found: /^create (unique )?index (?!.* on only )/,
    say: 'an index build stops all writers: create it on ONLY the parent, and build partitions concurrently',
  },
  {
    found: /add column \w+ [^,]*\bcheck \(/,
    say: 'a check in a new column reads all rows: add it as a constraint that is NOT VALID',
  },
  {
    found: /add constraint \w+ check (?!.*not valid)/,
    say: 'a new check reads all rows: make it NOT VALID, and validate it in a later file',
  },
  {
    found: /add (constraint \w+ )?foreign key (?!.*not valid)/,
    say: 'a new foreign key reads all rows: make it NOT VALID, and validate it in a later file',
  },
  {
    found: /add (constraint \w+ )?(primary key|unique) \(/,
    say: 'a unique constraint builds an index under a lock: attach an index that was built concurrently',
  },
  { found: /set not null/, say: 'SET NOT NULL reads all rows: use a check that is NOT VALID' },
  { found: /alter column \w+ (set data )?type /, say: 'another type rewrites the table: add a new column' },
  {
    found: /add column .*(\bserial\b|generated |default (?!null|true|false|'|-?\d|nullif\(current_setting))/,
    say: 'a computed default rewrites the table: add the column without one, and set the default after it',
  },
  { found: /^(update|delete from) /, say: 'one statement over all rows holds their locks: work in batches' },
  { found: /^(vacuum full|cluster|truncate|lock table)/, say: 'it locks the whole table' },
]

/**
 * The order in which a writer takes the tables of an attempt (libs/store/src/insert-attempts.ts). A migration
 * that takes two of them in another order gets a deadlock with the first writer that comes in between, and
 * then only succeeds when nobody writes.
 */
const ORDER_OF_WRITERS = ['attempts', 'sandbox_invocations', 'results'] as const

/** Returns `<first words of the statement>: <what to do>` for each that breaks a rule. */
export const lockProblems = (sql: string): string[] => [...longLocks(sql), ...crossedLocks(sql)]

/** Statements that lock a table although the migration already holds one that writers lock later. */
function crossedLocks(sql: string): string[] {
  const taken = new Set<number>()
  return statementsOf(sql).flatMap((statement) => {
    if (!/^(alter table|(create|drop) (unique )?(trigger|index)) /.test(statement)) return []
    const at = ORDER_OF_WRITERS.findIndex((name) => new RegExp(`\\b${name}\\b`).test(headOf(statement)))
    if (at === -1 || taken.has(at)) return []
    const isCrossed = [...taken].some((other) => other > at)
    taken.add(at)
    const order = ORDER_OF_WRITERS.join(', ')
    return isCrossed ? [`${statement.slice(0, 70)}: writers take ${order}, so take them in this order`] : []
  })
}

function longLocks(sql: string): string[] {
  const own = new Set([...sql.matchAll(/create table (?:if not exists )?(\w+)/gi)].map(([, name]) => name))
  return statementsOf(sql).flatMap((statement) => {
    const table = LARGE.find((name) => !own.has(name) && new RegExp(`\\b${name}\\b`).test(headOf(statement)))
    if (table === undefined) return []
    return RULES.filter(({ found }) => found.test(statement)).map(
      ({ say }) => `${statement.slice(0, 70)}: ${say}`,
    )
  })
}

/** The part of a statement that names its table: everything before the first parenthesis. */
const headOf = (statement: string): string => statement.split('(')[0] ?? ''

/** Statements in lower case with single spaces, without comments and without bodies of functions. */
function statementsOf(sql: string): string[] {
  return sql
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
    .replaceAll(/--.*$/gm, '')
    .split(';')
    .map((one) => one.replaceAll(/\s+/g, ' ').trim().toLowerCase())
    .filter((one) => one !== '')
}
