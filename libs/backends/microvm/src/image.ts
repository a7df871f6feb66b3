/**
 * The files that a virtual machine boots from, as infra/images/microvm makes them: one folder per build with
 * a manifest. A worker never builds. It takes the newest build that has the guest agent of its own version.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { guestDigest } from '@cofferdam/sandbox/guest'
import { z } from 'zod'

/** The Python scripts of the virtual machine’s first process. They are read at each call. */
export const guestFiles = (): { name: string; bytes: Buffer }[] =>
  ['vm_init.py', 'vm_agent.py', 'vm_ports.py'].map((name) => ({
    name,
    bytes: readFileSync(fileURLToPath(new URL(`../guest/${name}`, import.meta.url))),
  }))

/** Where `npm run image -- --microvm` puts images in a checkout, and where a worker looks by default. */
export const IMAGE_CACHE = fileURLToPath(new URL('../../../../.cache/microvm', import.meta.url))

export const IMAGE_FILES = { kernel: 'vmlinux', initramfs: 'initramfs.cpio', root: 'root.erofs' } as const

const sha256Schema = z.string().regex(/^[0-9a-f]{64}$/)

export const imageManifestSchema = z.strictObject({
  /** Digest of the inputs. */
  tag: z.string().regex(/^[0-9a-f]{16}$/),
  /** Version of the build scripts. */
  recipe: z.int(),
  size: z.enum(['slim', 'full']),
  /** Digest of the root's inputs alone. A new build with the same digest reuses the root of this image. */
  root_tag: z.string().max(64),
  /** Digest of everything of ours that runs inside. */
  guest: sha256Schema,
  /** Release of the guest's kernel. */
  kernel_release: z.string().max(128),
  made_at: z.iso.datetime(),
  sha256: z.strictObject({ kernel: sha256Schema, initramfs: sha256Schema, root: sha256Schema }),
})
export type ImageManifest = z.output<typeof imageManifestSchema>

export interface MicrovmImage {
  folder: string
  manifest: ImageManifest
  kernel: string
  initramfs: string
  root: string
}

/** SHA-256 (hex) of the guest agent and of the first process. */
export function microvmGuestDigest(): string {
  const hash = createHash('sha256').update(guestDigest())
  for (const { bytes } of guestFiles()) hash.update(bytes)
  return hash.digest('hex')
}

/** Every image in `cache`. Folders without a valid manifest are skipped. */
export async function listImages(cache: string): Promise<MicrovmImage[]> {
  const names: string[] = await readdir(cache).catch(() => [])
  const images: MicrovmImage[] = []
  for (const name of names.toSorted()) {
    const folder = join(cache, name)
    const text = await readFile(join(folder, 'manifest.json'), 'utf8').catch(() => null)
    const manifest = text === null ? undefined : imageManifestSchema.safeParse(parsedJson(text)).data
    if (manifest !== undefined) images.push(imageAt(folder, manifest))
  }
  return images
}

/** The newest image in `cache` of this size with our guest, or null. */
export async function findImage(cache: string, size: ImageManifest['size']): Promise<MicrovmImage | null> {
  const guest = microvmGuestDigest()
  let best: MicrovmImage | null = null
  for (const image of await listImages(cache)) {
    const { manifest } = image
    if (manifest.guest !== guest || manifest.size !== size) continue
    if (best === null || best.manifest.made_at < manifest.made_at) best = image
  }
  return best
}

export const imageAt = (folder: string, manifest: ImageManifest): MicrovmImage => ({
  folder,
  manifest,
  kernel: join(folder, IMAGE_FILES.kernel),
  initramfs: join(folder, IMAGE_FILES.initramfs),
  root: join(folder, IMAGE_FILES.root),
})

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
