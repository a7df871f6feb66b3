/** A copy of this working tree, in which a test may break things. */
import { cpSync, readdirSync } from 'node:fs'
import { join } from 'node:path'

export const ROOT = join(import.meta.dirname, '../..')

/** Copies everything but packages, data and history. */
export function copyTree(to: string): void {
  const names = readdirSync(ROOT).filter(
    (name) => !['.git', '.cache', '.data', 'node_modules'].includes(name),
  )
  for (const name of names)
    cpSync(join(ROOT, name), join(to, name), { recursive: true, verbatimSymlinks: true })
}
