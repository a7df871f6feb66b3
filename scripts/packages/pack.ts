/** Makes the tarball of a published package, which contains all of our code that the package needs. */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { copyFile, glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { addCommand, stampVersion } from './add-command.ts'
import { copyAssets } from './assets.ts'
import { emit } from './emit.ts'
import { rewriteOwnImports, type OwnModules } from './own-imports.ts'
import type { Manifest, Published } from './published.ts'
import { newestRelease } from './release-notes.ts'

export interface Packed {
  name: string
  version: string
  /** The tarball. */
  file: string
  bytes: number
  /** Paths inside, with their sizes in bytes. */
  files: { path: string; size: number }[]
}

/** Makes a tarball in `destination`. Throws when the package would need something that nobody publishes. */
export async function pack(root: string, published: Published, destination: string): Promise<Packed> {
  await mkdir(path.join(root, '.cache'), { recursive: true })
  // A folder of its own, because two test files may make the same package at a time.
  const scratch = await mkdtemp(path.join(root, '.cache/packages-'))
  try {
    return await packIn(path.join(scratch, published.name), root, published, destination)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function packIn(
  folder: string,
  root: string,
  published: Published,
  destination: string,
): Promise<Packed> {
  const dist = path.join(folder, 'dist')
  const manifests = await readManifests(root)
  const own = ownModules(manifests)
  await emit(root, dist, published, own)
  const foreign = await rewriteOwnImports(dist, own)
  const { license, optionalDependencies: nodes = {} } = await readManifest(root, '.')
  const { version } = newestRelease(await readFile(path.join(root, 'CHANGELOG.md'), 'utf8'))
  await stampVersion(dist, version)
  const reached = [...manifests.keys()].filter((dir) => existsSync(path.join(dist, dir)))
  await copyAssets(root, dist, reached)
  const manifest = {
    name: published.name,
    version,
    description: published.description,
    license,
    keywords: published.keywords,
    type: 'module',
    sideEffects: false,
    exports: exportsOf(published),
    files: ['dist'],
    engines: published.engines,
    dependencies: versionsOf(foreign, manifests),
    ...(published.command === undefined
      ? {}
      : await addCommand(
          root,
          dist,
          published.command,
          reached.map((dir) => manifests.get(dir)),
          nodes,
        )),
  }
  await writeFile(path.join(folder, 'package.json'), `${JSON.stringify(manifest, null, 2)}\n`)
  await copyFile(
    path.join(root, published.dir, published.readme ?? 'README.md'),
    path.join(folder, 'README.md'),
  )
  await copyFile(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'))
  await mkdir(destination, { recursive: true })
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', destination]
  const { stdout } = await promisify(execFile)('npm', args, { cwd: folder })
  const [made] = JSON.parse(stdout) as { filename: string; size: number; files: Packed['files'] }[]
  if (made === undefined) throw new Error('npm pack made no tarball')
  const file = path.join(destination, made.filename)
  return { name: published.name, version, file, bytes: made.size, files: made.files }
}

/** Every workspace's folder with its package.json. */
async function readManifests(root: string): Promise<Map<string, Manifest>> {
  const manifests = new Map<string, Manifest>()
  for await (const file of glob('{apps,libs,libs/backends}/*/package.json', { cwd: root })) {
    const dir = path.dirname(file)
    manifests.set(dir, await readManifest(root, dir))
  }
  return manifests
}

const readManifest = async (root: string, dir: string): Promise<Manifest> =>
  JSON.parse(await readFile(path.join(root, dir, 'package.json'), 'utf8')) as Manifest

function ownModules(manifests: ReadonlyMap<string, Manifest>): OwnModules {
  const modules = [...manifests].flatMap(([dir, { name, exports = {} }]) =>
    Object.entries(exports).map(
      ([entry, file]) => [name + entry.slice(1), path.posix.join(dir, file)] as const,
    ),
  )
  return new Map(modules)
}

function exportsOf({ dir, exports }: Published): Record<string, unknown> {
  const entries = Object.entries(exports).map(([entry, file]) => {
    const base = `./${path.posix.join('dist', dir, file.replace(/\.ts$/, ''))}`
    return [entry, { types: `${base}.d.ts`, default: `${base}.js` }]
  })
  return { ...Object.fromEntries(entries), './package.json': './package.json' }
}

/** The pinned version of each package. Throws for one that no workspace declares, such as one of ours. */
function versionsOf(
  names: ReadonlySet<string>,
  manifests: ReadonlyMap<string, Manifest>,
): Record<string, string> {
  const declared = Object.assign(
    {},
    ...[...manifests.values()].map(({ dependencies = {} }) => dependencies),
  ) as Record<string, string>
  const found = [...names].toSorted().map((name) => {
    const version = declared[name]
    if (version === undefined || name.startsWith('@cofferdam/'))
      throw new Error(
        `A published file imports ${name}, which is neither a dependency nor part of the package.`,
      )
    return [name, version]
  })
  return Object.fromEntries(found)
}
