/** The numbered SQL files of ../migrations, in order, with their checksums. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  number: number
  name: string
  sql: string
  /** SHA-256 of the file in hex. An applied file must never change what it makes. */
  checksum: string
  /**
   * Checksums of earlier contents that made the same schema in another way, such as with longer locks. The
   * file names them in lines `-- Replaces: <checksum>`.
   */
  former: readonly string[]
}

const FOLDER = new URL('../migrations/', import.meta.url)

/** Throws when a number repeats. Gaps are allowed. */
export function migrationFiles(): Migration[] {
  const files = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()
  const taken = new Set<number>()
  return files.map((name) => {
    const number = Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1])
    if (Number.isNaN(number) || taken.has(number))
      throw new Error(`migration ${name}: expected NNNN-name.sql with a number of its own`)
    taken.add(number)
    const sql = readFileSync(new URL(name, FOLDER), 'utf8')
    const former = [...sql.matchAll(/^-- Replaces: ([0-9a-f]{64})\b/gm)].map(([, checksum = '']) => checksum)
    return { number, name, sql, checksum: createHash('sha256').update(sql).digest('hex'), former }
  })
}

/** One checksum over all files. It names the template database of tests. */
export function schemaChecksum(): string {
  const all = migrationFiles().map((migration) => migration.checksum)
  return createHash('sha256').update(all.join()).digest('hex')
}
