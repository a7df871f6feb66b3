/**
 * Docker Compose v2 for the test of docker-compose.yml: `npm run compose -- config --profiles`. Uses the
 * Compose on PATH, or else the package of a newer Debian release, which this machine's Debian mirror also
 * has. That package is unpacked once into `.cache/compose` and not installed, because it would replace the
 * compose of the system.
 */
import { execFile, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The oldest release of Debian whose compose is of version 2. */
const SUITE = 'trixie'
/** This file is part of the package debian-archive-keyring, which every Debian has. */
const KEYRING = '/usr/share/keyrings/debian-archive-keyring.gpg'
const CACHED = join(
  dirname(dirname(fileURLToPath(import.meta.url))),
  `.cache/compose/${SUITE}/docker-compose`,
)

/** The command that starts a Compose of version 2 from this machine. Null if there is none. */
export async function findCompose(): Promise<readonly string[] | null> {
  for (const words of [['docker', 'compose'], ['docker-compose'], [CACHED]] as const)
    if (await isVersion2(words)) return words
  return null
}

async function isVersion2([program, ...words]: readonly [string, ...string[]]): Promise<boolean> {
  if (program === CACHED && !existsSync(CACHED)) return false
  try {
    const { stdout } = await run(program, [...words, 'version', '--short'])
    return /^v?[2-9]\./.test(stdout.trim())
  } catch {
    return false
  }
}

/** Like `findCompose`, but fetches Compose if it is absent. Throws with what to do. */
export async function provideCompose(): Promise<readonly string[]> {
  const found = await findCompose()
  if (found !== null) return found
  const folder = dirname(CACHED)
  await mkdir(folder, { recursive: true })
  // The folder is beside the final one, so that the rename at the end is atomic.
  const scratch = await mkdtemp(`${folder}-`)
  try {
    await fetchPackage(scratch)
    await rename(join(scratch, 'root/usr/libexec/docker/cli-plugins/docker-compose'), CACHED)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return [CACHED]
}

/**
 * Leaves the package's files in `root`. apt checks the package's signature. The package lists of this machine
 * stay as they are.
 */
async function fetchPackage(scratch: string): Promise<void> {
  const options = await aptOptions(scratch)
  await run('apt-get', [...options, 'update', '-qq'], { maxBuffer: 16 * 1024 * 1024 })
  await run('apt-get', [...options, 'download', '-qq', 'docker-compose'], { cwd: scratch })
  const archive = (await readdir(scratch)).find((name) => name.endsWith('.deb'))
  if (archive === undefined) throw new Error('apt-get downloaded no package docker-compose')
  await run('dpkg-deb', ['-x', archive, 'root'], { cwd: scratch })
}

/**
 * Options for apt to keep its state in the scratch folder and to ask this machine's mirror for the newer
 * release.
 */
async function aptOptions(scratch: string): Promise<string[]> {
  // apt lists the mirrors that have a component `main`. The first of them is Debian's.
  const { stdout } = await run('apt-get', ['indextargets', '--format', '$(SITE)', 'Component: main'])
  const [site = ''] = stdout.split('\n')
  if (site === '') throw new Error('apt has no mirror of Debian; install Docker Compose 2')
  await writeFile(join(scratch, 'sources.list'), `deb [signed-by=${KEYRING}] ${site} ${SUITE} main\n`)
  await mkdir(join(scratch, 'lists/partial'), { recursive: true })
  await mkdir(join(scratch, 'archives/partial'), { recursive: true })
  const settings = {
    'Dir::Etc::SourceList': join(scratch, 'sources.list'),
    'Dir::Etc::SourceParts': '-',
    'Dir::State::Lists': join(scratch, 'lists'),
    'Dir::Cache': scratch,
    'Acquire::Languages': 'none',
    'Acquire::Retries': '3',
    'APT::Sandbox::User': 'root',
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-o', `${name}=${value}`])
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const [program = '', ...words] = await provideCompose().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    return process.exit(1)
  })
  spawn(program, [...words, ...process.argv.slice(2)], { stdio: 'inherit' }).on('exit', (code) =>
    process.exit(code ?? 1),
  )
}
