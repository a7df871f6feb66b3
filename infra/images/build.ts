/**
 * Builds the sandbox image of the docker and gvisor backends: `node infra/images/build.ts [--full] [--from
 * auto|registry|debian] [--force] [--quiet]`. The tag is a digest of the inputs. If an image with that tag
 * exists, only `latest` (or `full`) is changed to it.
 *
 *   registry  from python and node images that are on this host or can be pulled (see the Dockerfile)
 *   debian    from packages of the host's own apt sources, imported as one layer; needs no registry
 *   auto      an image that exists on this host, else registry, else debian
 *
 * Two options build another image instead, without Docker. `--fleet` builds the image of API, worker and
 * dispatcher (fleet/build-fleet.ts), as an archive in `--output` (default: dist/images). `--microvm` builds
 * the image of virtual machines (microvm/build-microvm.ts).
 */
import { spawn } from 'node:child_process'
import { mkdtemp, mkdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { imageName, type ImageSize } from '@cofferdam/contract'
import Docker from 'dockerode'
import { guestDigest, installGuest } from '@cofferdam/sandbox/guest'
import { nodeBinary, nodeVersion } from './bundled-node.ts'
import { debianSuite, makeDebianRoot, whyNoDebian } from './debian-rootfs.ts'
import { fetchNpm } from './npm-package.ts'
import { AGENT_LABEL, IMAGE_USER, imageTag, REPOSITORY, SIZE_LABEL, type Flavour } from './recipe.ts'
import { buildFleetImage } from './fleet/build-fleet.ts'
import { buildMicrovmImage } from './microvm/build-microvm.ts'
import { buildOnRegistry, pullBases } from './registry-image.ts'
import { verifyImage } from './verify-image.ts'

export interface BuildOptions {
  /** Default: slim. */
  size?: ImageSize
  /** Default: auto. */
  from?: 'auto' | Flavour
  /** Build even if the tag exists. */
  force?: boolean
  /** Default: the daemon that DOCKER_HOST or the standard socket names. */
  docker?: Docker
  /** Called with each line of progress. */
  onStep?: (line: string) => void
}

export interface BuiltImage {
  tag: string
  /** Second name, which always points to the newest build. */
  name: string
  flavour: Flavour
  /** False if the image existed already. */
  built: boolean
  sizeBytes: number
}

/** Finds or builds the image. The error message says what is missing and what to do. */
export async function buildSandboxImage(options: BuildOptions = {}): Promise<BuiltImage> {
  const docker = options.docker ?? new Docker()
  const say = options.onStep ?? (() => {})
  await docker.ping().catch((cause: unknown) => {
    throw new Error(
      'No Docker daemon answers. Start one (e.g. `systemctl start docker`), or set DOCKER_HOST.',
      { cause },
    )
  })
  const { size = 'slim' } = options
  const inputs = { size, node: nodeVersion(), suite: await debianSuite() }
  const wanted: Flavour[] =
    options.from === undefined || options.from === 'auto' ? ['registry', 'debian'] : [options.from]
  if (options.force !== true)
    for (const flavour of wanted) {
      const tag = imageTag(flavour, inputs)
      if (await isHere(docker, tag)) return await finish(docker, size, { tag, flavour, built: false })
    }

  const reasons: string[] = []
  for (const flavour of wanted) {
    const tag = imageTag(flavour, inputs)
    const why = await whyNot(flavour, docker)
    if (why !== null) {
      reasons.push(`${flavour}: ${why}`)
      continue
    }
    say(`building ${tag} (${flavour})`)
    await inScratch(async (scratch) => {
      const agent = join(scratch, 'agent')
      await installGuest(agent)
      const npm = await fetchNpm(scratch)
      if (flavour === 'registry') await buildOnRegistry({ docker, tag, size, scratch })
      else await importDebian({ docker, tag, size, scratch, agent, npm, say })
    })
    await verifyImage(docker, tag, size)
    return await finish(docker, size, { tag, flavour, built: true })
  }
  throw new Error(`The sandbox image cannot be built here.\n  ${reasons.join('\n  ')}`)
}

async function whyNot(flavour: Flavour, docker: Docker): Promise<string | null> {
  if (flavour === 'registry') return await pullBases(docker)
  if (nodeBinary() === null)
    return `there is no node binary for linux-${process.arch} in node_modules; run npm ci on this machine.`
  return await whyNoDebian()
}

async function importDebian(build: {
  docker: Docker
  tag: string
  size: ImageSize
  scratch: string
  agent: string
  npm: string
  say: (line: string) => void
}): Promise<void> {
  const node = nodeBinary()
  if (node === null) throw new Error('the node binary is gone')
  const root = join(build.scratch, 'root')
  await mkdir(root, { mode: 0o755 })
  build.say('downloading and unpacking Debian packages')
  const { scratch, agent, npm, size } = build
  await makeDebianRoot({ root, scratch, agent, npm, node, size })
  build.say('importing')
  // All files are owned by root and in a fixed order, whoever builds the image.
  const tar = spawn(
    'tar',
    ['-C', root, '--owner=0', '--group=0', '--numeric-owner', '--sort=name', '-c', '.'],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  const [repo, tagName] = build.tag.split(':')
  const answer = await build.docker.importImage(tar.stdout, {
    repo,
    tag: tagName,
    changes: [
      `LABEL ${AGENT_LABEL}=${guestDigest()} ${SIZE_LABEL}=${size}`,
      'ENV PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin',
      'ENV LANG=C.UTF-8',
      `USER ${IMAGE_USER}`,
    ],
  })
  await finished(build.docker, answer)
}

/** Reads a daemon's progress stream to its end. Rejects with an error in the stream. */
function finished(docker: Docker, stream: NodeJS.ReadableStream): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  docker.modem.followProgress(stream, (error: Error | null, events: { error?: string }[]) => {
    const failed = error ?? events.find((event) => event.error !== undefined)?.error
    if (failed === undefined) resolve()
    else reject(failed instanceof Error ? failed : new Error(failed))
  })
  return promise
}

async function finish(
  docker: Docker,
  size: ImageSize,
  image: Omit<BuiltImage, 'sizeBytes' | 'name'>,
): Promise<BuiltImage> {
  const found = docker.getImage(image.tag)
  const name = imageName(size)
  await found.tag({ repo: REPOSITORY, tag: name.slice(REPOSITORY.length + 1) })
  return { ...image, name, sizeBytes: (await found.inspect()).Size }
}

async function isHere(docker: Docker, tag: string): Promise<boolean> {
  return docker
    .getImage(tag)
    .inspect()
    .then(
      () => true,
      () => false,
    )
}

async function inScratch(work: (scratch: string) => Promise<void>): Promise<void> {
  const scratch = await mkdtemp(join(tmpdir(), 'cofferdam-image-'))
  try {
    await work(scratch)
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      full: { type: 'boolean', default: false },
      from: { type: 'string', default: 'auto' },
      force: { type: 'boolean', default: false },
      quiet: { type: 'boolean', default: false },
      microvm: { type: 'boolean', default: false },
      fleet: { type: 'boolean', default: false },
      output: { type: 'string', default: 'dist/images' },
    },
  })
  const say = (line: string): void => {
    if (!values.quiet) console.error(line)
  }
  if (values.fleet) {
    const { archive, sbom, name, id } = await buildFleetImage({ output: values.output, say })
    console.log(`${name} ${id}\n  docker load --input ${archive}\n  bill of materials: ${sbom}`)
    return
  }
  if (values.microvm) {
    const path = nodeBinary()
    const { image, built } = await buildMicrovmImage({
      size: values.full ? 'full' : 'slim',
      node: path === null ? null : { path, version: nodeVersion() },
      force: values.force,
      say,
    })
    console.log(`${image.folder} ${built ? 'built' : 'is here already'} (${image.manifest.kernel_release})`)
    return
  }
  const { from } = values
  if (from !== 'auto' && from !== 'registry' && from !== 'debian')
    throw new Error(`--from is "${from}"; expected auto, registry or debian`)
  const image = await buildSandboxImage({
    size: values.full ? 'full' : 'slim',
    from,
    force: values.force,
    onStep: say,
  })
  const what = image.built ? 'built' : 'is here already'
  console.log(
    `${image.tag} ${what} (${image.flavour}, ${Math.round(image.sizeBytes / 1e6)} MB), also ${image.name}`,
  )
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  await main().catch((error: unknown) => {
    console.error(error instanceof Error ? error.message : error)
    process.exitCode = 1
  })
}
