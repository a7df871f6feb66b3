/**
 * Makes the emitted files independent of the workspaces: an import of one of our packages becomes an import
 * of its emitted file. Everything that is left is a dependency.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { readSource } from '../../tests/architecture/import-tree.ts'

/** `from '…'`, `import '…'` and `import('…')` of one of our packages, in JavaScript and in declarations. */
const OWN = /(\bfrom\s*|\bimport\s*\(?\s*)(['"])(@cofferdam\/[^'"\n]+)\2/g

/** Our package's specifier → its source file below the root, such as `libs/contract/src/index.ts`. */
export type OwnModules = ReadonlyMap<string, string>

/**
 * Rewrites imports in all files below `outDir`. Returns the names of the packages that the files still
 * import.
 */
export async function rewriteOwnImports(outDir: string, own: OwnModules): Promise<Set<string>> {
  const foreign = new Set<string>()
  const names = await readdir(outDir, { recursive: true })
  for (const name of names.filter((one) => /\.(js|d\.ts)$/.test(one))) {
    const file = path.join(outDir, name)
    const text = await readFile(file, 'utf8')
    const rewritten = text.replaceAll(OWN, (all, before: string, quote: string, specifier: string) => {
      const source = own.get(specifier)
      if (source === undefined) return all
      return `${before}${quote}${relative(path.dirname(name), source.replace(/\.ts$/, '.js'))}${quote}`
    })
    if (rewritten !== text) await writeFile(file, rewritten)
    for (const { specifier } of readSource(name, '', rewritten).imports)
      if (isForeign(specifier)) foreign.add(packageOf(specifier))
  }
  return foreign
}

const isForeign = (specifier: string): boolean => !/^(\.|node:)/.test(specifier)

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')

function relative(from: string, to: string): string {
  const found = path.posix.relative(from, to)
  return found.startsWith('.') ? found : `./${found}`
}
