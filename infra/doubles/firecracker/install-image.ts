/**
 * Puts an image of virtual machines into a folder, so that jails below it can have hard links to its files.
 * Beside it is what the double boots: the same image with the bridge in its initramfs.
 */
import { copyFile, link, mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { findImage, IMAGE_CACHE, IMAGE_FILES } from '../../../libs/backends/microvm/src/image.ts'
import { withBridge } from './bridge-initramfs.ts'
import type { DoubleConfig } from './faults.ts'

export interface InstalledImage {
  /** What a worker has as `image_dir`. */
  imageDir: string
  /** And as `chroot_base`. */
  chrootBase: string
  machines: NonNullable<DoubleConfig['machines']>
}

/** Throws if this checkout has no image. `folder` exists. */
export async function installImage(folder: string): Promise<InstalledImage> {
  const image = await findImage(IMAGE_CACHE, 'slim')
  if (image === null)
    throw new Error('There is no image of virtual machines. Make it with: npm run image -- --microvm')
  const imageDir = join(folder, 'images')
  const into = join(imageDir, basename(image.folder))
  await mkdir(into, { recursive: true })
  for (const name of [...Object.values(IMAGE_FILES), 'manifest.json']) {
    const from = join(image.folder, name)
    // A link costs nothing, and another file system has none.
    await link(from, join(into, name)).catch(() => copyFile(from, join(into, name)))
  }
  const initramfs = join(folder, 'bridge.cpio')
  await writeFile(initramfs, await withBridge(image.initramfs))
  const chrootBase = join(folder, 'jails')
  await mkdir(chrootBase, { recursive: true, mode: 0o755 })
  const { kernel, root } = image
  return { imageDir, chrootBase, machines: { kernel, initramfs, root } }
}
