/**
 * Writes an image as an archive that `docker load` reads, byte by byte the same for the same folders. An
 * engine that imports or builds would put its own time into it.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { mkdir, rename, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { run } from '../command.ts'

/** The time of all files: the oldest that zip archives can hold. */
const FILE_TIME = '@315532800'

export interface Layer {
  folder: string
  /** Who owns the files. Default: root. */
  owner?: number
}

export interface ImageConfig {
  created: string
  env: readonly string[]
  entrypoint: readonly string[]
  cmd: readonly string[]
  user: string
  workingDir: string
  volumes: readonly string[]
  labels: Readonly<Record<string, string>>
}

/** Writes the archive to `file`. Returns the image's ID, `sha256:…`. */
export async function writeImage(options: {
  layers: readonly Layer[]
  config: ImageConfig
  name: string
  scratch: string
  file: string
}): Promise<string> {
  const folder = join(options.scratch, 'archive')
  await mkdir(folder)
  const digests: string[] = []
  for (const layer of options.layers) {
    const path = join(folder, 'layer.tar')
    await pack(path, layer.folder, layer.owner ?? 0)
    const digest = await digestOf(path)
    await mkdir(join(folder, digest))
    await rename(path, join(folder, digest, 'layer.tar'))
    digests.push(digest)
  }
  const config = JSON.stringify(configOf(options.config, digests))
  const id = createHash('sha256').update(config).digest('hex')
  await writeFile(join(folder, `${id}.json`), config)
  const Layers = digests.map((digest) => `${digest}/layer.tar`)
  const manifest = [{ Config: `${id}.json`, RepoTags: [options.name], Layers }]
  await writeFile(join(folder, 'manifest.json'), JSON.stringify(manifest))
  await pack(options.file, folder, 0)
  return `sha256:${id}`
}

const ARCHITECTURES: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

function configOf(config: ImageConfig, digests: readonly string[]): object {
  return {
    architecture: ARCHITECTURES[process.arch] ?? process.arch,
    os: 'linux',
    created: config.created,
    config: {
      Env: config.env,
      Entrypoint: config.entrypoint,
      Cmd: config.cmd,
      User: config.user,
      WorkingDir: config.workingDir,
      Volumes: Object.fromEntries(config.volumes.map((path) => [path, {}])),
      Labels: config.labels,
    },
    rootfs: { type: 'layers', diff_ids: digests.map((digest) => `sha256:${digest}`) },
    history: digests.map(() => ({ created: config.created, created_by: 'infra/images/fleet' })),
  }
}

/**
 * Writes a tar that does not depend on this host: without user names, with fixed times and in sorted order.
 */
async function pack(file: string, folder: string, owner: number): Promise<void> {
  const same = ['--sort=name', '--format=gnu', `--mtime=${FILE_TIME}`, '--numeric-owner']
  await run('tar', ['-C', folder, ...same, `--owner=${owner}`, `--group=${owner}`, '-cf', file, '.'])
}

/** The SHA-256 of a file, in hexadecimal. */
export async function digestOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(file), hash)
  return hash.digest('hex')
}
