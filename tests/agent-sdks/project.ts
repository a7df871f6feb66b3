/**
 * A project outside this repository: the SDKs come from the registry, and @cofferdam/tools from its tarball.
 */
import { existsSync } from 'node:fs'
import { copyFile, glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { pack } from '../../scripts/packages/pack.ts'
import { publishedPackage } from '../../scripts/packages/published.ts'
import { done, ROOT, start } from '../packages/tools.ts'

/** 280 packages with 700 MB, installed once from the lock file of the examples. */
const FOLDER = path.join(ROOT, '.cache/agent-sdks')
const EXAMPLES = path.join(ROOT, 'examples/agents')
/** Left out here, because tests/agent-sandboxes runs these examples. */
const OF_SANDBOXES = ['*-sandbox.ts']

/** Installs the SDKs, unless the installed ones come from the same lock file. */
async function installSdks(): Promise<void> {
  const lock = await readFile(path.join(EXAMPLES, 'package-lock.json'), 'utf8')
  const complete = path.join(FOLDER, 'complete.json')
  if (existsSync(complete) && (await readFile(complete, 'utf8')) === lock) return
  await mkdir(FOLDER, { recursive: true })
  for (const name of ['package.json', 'package-lock.json'])
    await copyFile(path.join(EXAMPLES, name), path.join(FOLDER, name))
  await done(start('npm', ['ci', '--no-audit', '--no-fund', '--loglevel=error'], FOLDER))
  await writeFile(complete, lock)
}

export interface Project extends AsyncDisposable {
  folder: string
  /** The compiler's errors for one way to resolve modules. Empty if there are none. */
  typeErrors(resolution: 'nodenext' | 'bundler'): Promise<string>
}

/** Copies the TypeScript files of `folders` into a project that has the packed tools and all SDKs. */
export async function makeProject(...folders: string[]): Promise<Project> {
  await installSdks()
  const folder = await mkdtemp(path.join(FOLDER, 'run-'))
  const tools = path.join(folder, 'node_modules/@cofferdam/tools')
  await mkdir(tools, { recursive: true })
  const { file } = await pack(ROOT, publishedPackage('@cofferdam/tools'), folder)
  await done(start('tar', ['-xzf', file, '--strip-components=1', '-C', tools], folder))
  for (const from of folders)
    for await (const name of glob('*.ts', { cwd: path.join(ROOT, from), exclude: OF_SANDBOXES }))
      await copyFile(path.join(ROOT, from, name), path.join(folder, name))
  await writeFile(path.join(folder, 'package.json'), '{"type":"module"}')
  return {
    folder,
    async typeErrors(resolution) {
      const compilerOptions = {
        strict: true,
        noEmit: true,
        target: 'es2024',
        module: resolution === 'bundler' ? 'esnext' : 'nodenext',
        moduleResolution: resolution,
        lib: ['esnext'],
        types: ['node'],
        typeRoots: [path.join(ROOT, 'node_modules/@types')],
        allowImportingTsExtensions: true,
        // Declarations of the SDKs are not ours. tests/packages checks our own.
        skipLibCheck: true,
        // Checks optional fields strictly with nodenext, and loosely with bundler.
        exactOptionalPropertyTypes: resolution === 'nodenext',
      }
      const config = path.join(folder, 'tsconfig.json')
      await writeFile(config, JSON.stringify({ compilerOptions, include: ['*.ts'] }))
      const tsc = path.join(ROOT, 'node_modules/typescript/bin/tsc')
      const { stdout } = await start(process.execPath, [tsc, '-p', '.'], folder).ended
      return stdout
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }),
  }
}
