/**
 * Builds the image of virtual machines from packages of the host's own apt sources: kernel, initramfs, and
 * the root of the container image as EROFS. Needs no compiler, no root and no Docker. The same packages give
 * the same bytes. Nothing here tests the kernel: the backend's probe does, by booting it.
 */
import { createHash } from 'node:crypto'
import { createReadStream } from 'node:fs'
import { link, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import {
  findImage,
  IMAGE_CACHE,
  IMAGE_FILES,
  imageAt,
  listImages,
  microvmGuestDigest,
  guestFiles,
  type ImageManifest,
  type MicrovmImage,
} from '@cofferdam/backend-microvm/image'
import type { ImageSize } from '@cofferdam/contract'
import { installGuest } from '@cofferdam/sandbox/guest'
import { exists, run } from '../command.ts'
import { debianSuite, downloadPackages, makeDebianRoot, whyNoDebian } from '../debian-rootfs.ts'
import { fetchNpm } from '../npm-package.ts'
import { imageTag } from '../recipe.ts'
import { makeInitramfs } from './initramfs.ts'
import { extractVmlinux, modulesInOrder } from './linux-kernel.ts'

/** Increase it if a change of these scripts changes the image. */
const RECIPE_VERSION = 3

/** The kernel for machines that exist only virtually, and a static busybox for the initramfs. */
const BOOT_PACKAGES = ['linux-image-cloud-amd64', 'busybox-static'] as const

/** Names without a file are built into the kernel. */
const MODULES = [
  'virtio_mmio',
  'virtio_blk',
  'virtio_console',
  'virtio_rng',
  'vmw_vsock_virtio_transport',
  'erofs',
] as const

/**
 * Vsock without a device. The image contains it for the fake Firecracker (a double), which alone loads it.
 */
const LOOPBACK = 'vsock_loopback'

/** UUID and timestamp of the file system are fixed, so that two builds give the same bytes. */
const UUID = 'c0ffe12d-a000-4000-8000-000000000001'
const EPOCH = 1_700_000_000

/** Finds or builds the image in `cache`. The error message says what is missing and what to do. */
export async function buildMicrovmImage(options: {
  size: ImageSize
  /** The Node of the image and its version. Null if this host has none for its architecture. */
  node: { path: string; version: string } | null
  force?: boolean
  cache?: string
  say: (line: string) => void
}): Promise<{ image: MicrovmImage; built: boolean }> {
  const { size, node, cache = IMAGE_CACHE, say } = options
  if (options.force !== true) {
    const found = await findImage(cache, size)
    if (found?.manifest.recipe === RECIPE_VERSION) return { image: found, built: false }
  }
  const why = await whyNot(node)
  if (why !== null || node === null) throw new Error(`The image of virtual machines cannot be built: ${why}`)
  await mkdir(cache, { recursive: true })
  const scratch = await mkdtemp(join(cache, 'building-'))
  try {
    const made = join(scratch, 'image')
    await mkdir(made)
    say('downloading and unpacking Debian packages')
    const release = await makeBootFiles(join(scratch, 'boot'), made)
    const rootTag = imageTag('debian', { size, node: node.version, suite: await debianSuite() })
    const known = options.force === true ? null : await findRoot(cache, rootTag)
    if (known === null) await makeRootFile(scratch, made, size, node.path, say)
    else await link(known, join(made, IMAGE_FILES.root))
    const manifest: ImageManifest = {
      tag: tagOf(rootTag, release),
      recipe: RECIPE_VERSION,
      size,
      root_tag: rootTag,
      guest: microvmGuestDigest(),
      kernel_release: release,
      made_at: new Date().toISOString(),
      sha256: {
        kernel: await digestOf(join(made, IMAGE_FILES.kernel)),
        initramfs: await digestOf(join(made, IMAGE_FILES.initramfs)),
        root: await digestOf(join(made, IMAGE_FILES.root)),
      },
    }
    await writeFile(join(made, 'manifest.json'), `${JSON.stringify(manifest, null, 2)}\n`)
    // QEMU may run as another user, so the files must be readable for all, whatever our umask is.
    await run('chmod', ['-R', 'a+rX', made])
    const folder = join(cache, manifest.tag)
    await rm(folder, { recursive: true, force: true })
    await rename(made, folder)
    return { image: imageAt(folder, manifest), built: true }
  } finally {
    // Some folders of packages are read-only even for their owner, so rm could not empty them.
    await run('chmod', ['-R', 'u+rwX', scratch]).catch(() => '')
    await rm(scratch, { recursive: true, force: true })
  }
}

async function whyNot(node: unknown): Promise<string | null> {
  if (process.arch !== 'x64') return `there is no recipe for ${process.arch}, only for x64.`
  if (node === null) return 'there is no node binary in node_modules; run npm ci on this machine.'
  if (!(await exists('mkfs.erofs'))) return 'mkfs.erofs is not installed: apt-get install erofs-utils.'
  return await whyNoDebian()
}

/** Kernel and initramfs. Returns the kernel's release. */
async function makeBootFiles(scratch: string, made: string): Promise<string> {
  const root = join(scratch, 'root')
  await mkdir(root, { recursive: true })
  const archives = await downloadPackages(scratch, BOOT_PACKAGES)
  for (const archive of archives)
    if (/\/(linux-image|busybox-static)/.test(archive)) await run('dpkg-deb', ['-x', archive, root])
  const lib = join(root, (await readdir(root)).includes('lib') ? 'lib/modules' : 'usr/lib/modules')
  const [release] = await readdir(lib)
  if (release === undefined) throw new Error('the kernel package brought no modules')
  const packed = await readFile(join(root, 'boot', `vmlinuz-${release}`))
  await writeFile(join(made, IMAGE_FILES.kernel), extractVmlinux(packed))
  const found = await modulesInOrder(join(lib, release), [...MODULES, LOOPBACK])
  const modules = found.filter(({ name }) => name !== `${LOOPBACK}.ko`)
  const spare = found.filter(({ name }) => name === `${LOOPBACK}.ko`)
  const busybox = await readFile(join(root, 'bin/busybox')).catch(() =>
    readFile(join(root, 'usr/bin/busybox')),
  )
  await writeFile(join(made, IMAGE_FILES.initramfs), makeInitramfs(busybox, guestFiles(), modules, spare))
  return release
}

/** Finds the root file of a cached image whose root had the same inputs. Null if there is none. */
async function findRoot(cache: string, rootTag: string): Promise<string | null> {
  const images = await listImages(cache)
  return images.find(({ manifest }) => manifest.root_tag === rootTag)?.root ?? null
}

async function makeRootFile(
  scratch: string,
  made: string,
  size: ImageSize,
  node: string,
  say: (line: string) => void,
): Promise<void> {
  const root = join(scratch, 'root')
  const agent = join(scratch, 'agent')
  await mkdir(root, { mode: 0o755 })
  await installGuest(agent)
  const npm = await fetchNpm(scratch)
  await makeDebianRoot({ root, scratch, agent, npm, node, size })
  // Makes everything readable for all: in the image every file belongs to root, whatever its owner was.
  await run('chmod', ['-R', 'u=rwX,go=rX', root])
  await run('chmod', ['1777', join(root, 'tmp')])
  say('making the file system')
  const target = join(made, IMAGE_FILES.root)
  // Options for equal builds. mkfs.erofs works in the order of folders on disk, which differs between two
  // builds.
  const fixed = ['-zlz4', `-T${EPOCH}`, `-U${UUID}`, '--force-uid=0', '--force-gid=0', '-x-1', '--quiet']
  await run('mkfs.erofs', [...fixed, target, root])
}

function tagOf(rootTag: string, kernel: string): string {
  const hash = createHash('sha256')
  for (const part of [`microvm ${RECIPE_VERSION}`, rootTag, kernel]) hash.update(part).update('\0')
  return hash.update(microvmGuestDigest()).digest('hex').slice(0, 16)
}

async function digestOf(path: string): Promise<string> {
  const hash = createHash('sha256')
  await pipeline(createReadStream(path), hash)
  return hash.digest('hex')
}
