/** Compiles the sources of a package, and everything of this repository that they import, to JavaScript. */
import { execFile } from 'node:child_process'
import { glob, mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { OwnModules } from './own-imports.ts'
import type { Published } from './published.ts'

/** The target of libraries, which must run on Node 20. A command brings its own Node. */
const TARGET = 'es2022'

/**
 * Writes .js, source maps and, for libraries, .d.ts below `outDir`, each where its source is below the root.
 * Only files that the entries reach are compiled, so there are no tests among them. Throws with the
 * compiler's findings.
 */
export async function emit(
  root: string,
  outDir: string,
  { dir, exports, command, lib, types }: Published,
  own: OwnModules,
): Promise<void> {
  await mkdir(outDir, { recursive: true })
  const config = path.join(outDir, 'tsconfig.json')
  const compilerOptions = {
    noEmit: false,
    rootDir: root,
    outDir,
    target: command === undefined ? TARGET : 'esnext',
    lib,
    types,
    declaration: command === undefined,
    // A library is checked against what all its platforms have. `npm run check` has checked everything else.
    noCheck: command !== undefined,
    sourceMap: true,
    inlineSources: true,
    // npm links the workspaces into node_modules, and the compiler emits nothing of what it finds there. So
    // the paths name the source files.
    paths: Object.fromEntries([...own].map(([name, file]) => [name, [path.join(root, file)]])),
  }
  const files = Object.values(exports).map((file) => path.join(root, dir, file))
  for await (const file of glob([...(command?.programs ?? [])], { cwd: root }))
    files.push(path.join(root, file))
  const extended = path.join(root, 'tsconfig.json')
  await writeFile(config, JSON.stringify({ extends: extended, compilerOptions, files, include: [] }))
  try {
    await promisify(execFile)(path.join(root, 'node_modules/.bin/tsc'), ['-p', config], { cwd: root })
  } catch (error) {
    throw new Error(`tsc: ${(error as { stdout?: string }).stdout ?? String(error)}`, { cause: error })
  }
  await rm(config)
}
