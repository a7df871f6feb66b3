/** The numbered SQL files of ../migrations, in order, with their checksums. */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'

export interface Migration {
  number: number
  name: string
  sql: string
  /** SHA-256 of the file, hex: an applied file may never change. */
  checksum: string
}

const FOLDER = new URL('../migrations/', import.meta.url)

/** Reads all migrations; throws when numbers repeat or leave a gap. */
export function migrationFiles(): Migration[] {
  const files = readdirSync(FOLDER)
    .filter((name) => name.endsWith('.sql'))
    .toSorted()
  return files.map((name, index) => {
    const number = Number(/^(\d{4})-[a-z0-9-]+\.sql$/.exec(name)?.[1])
    if (number !== index + 1)
      throw new Error(`migration ${name}: expected the number ${String(index + 1).padStart(4, '0')}`)
    const sql = readFileSync(new URL(name, FOLDER), 'utf8')
    return { number, name, sql, checksum: createHash('sha256').update(sql).digest('hex') }
  })
}

/** One checksum over all of them: names a template database of tests. */
export function schemaChecksum(): string {
  const all = migrationFiles().map((migration) => migration.checksum)
  return createHash('sha256').update(all.join()).digest('hex')
}
