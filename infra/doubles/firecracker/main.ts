/**
 * `node infra/doubles/firecracker/main.ts --dir FOLDER` puts the doubles of `firecracker` and `jailer` into a
 * folder and prints one line of JSON. They need no server: this process only waits until it is stopped, and
 * then removes what it made. With `--machines` each machine is one of QEMU, and the folder also gets the
 * image.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { copyFile, link, mkdir, writeFile } from 'node:fs/promises'
import { join, resolve, basename } from 'node:path'
import { parseArgs } from 'node:util'
import { withBridge } from './bridge-initramfs.ts'
import type { DoubleConfig } from './faults.ts'
import { installDouble } from './install-double.ts'
import { findImage, IMAGE_CACHE, IMAGE_FILES } from '../../../libs/backends/microvm/src/image.ts'

const { values } = parseArgs({
  options: { port: { type: 'string' }, dir: { type: 'string' }, machines: { type: 'boolean' } },
})
if (values.dir === undefined) {
  console.error('expected --dir FOLDER')
  process.exit(2)
}
const MADE = ['firecracker', 'jailer', 'double.json', 'calls.jsonl', 'bridge.cpio', 'images', 'jails']
const folder = resolve(values.dir)
mkdirSync(folder, { recursive: true })
const image = values.machines === true ? await installImage(folder).catch(refuse) : null
const { firecracker, jailer, record } = installDouble(folder, { machines: image?.machines ?? null })
const host = image === null ? {} : { image_dir: image.imageDir, chroot_base: image.chrootBase }
console.log(JSON.stringify({ double: 'firecracker', firecracker, jailer, record, ...host }))
const timer = setInterval(() => {}, 60_000)
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.once(signal, () => {
    clearInterval(timer)
    for (const name of MADE) rmSync(join(folder, name), { force: true, recursive: true })
  })

function refuse(error: unknown): never {
  console.error(error instanceof Error ? error.message : error)
  process.exit(1)
}

interface InstalledImage {
  /** Value of `image_dir` in the worker's configuration. */
  imageDir: string
  /** Value of `chroot_base` in the worker's configuration. */
  chrootBase: string
  machines: NonNullable<DoubleConfig['machines']>
}

/**
 * Puts the image of virtual machines into a folder that exists, so that jails below it can have hard links to
 * its files. Beside it is what the double boots: the same image with the bridge in its initramfs. Throws if
 * this checkout has no image.
 */
async function installImage(folder: string): Promise<InstalledImage> {
  const image = await findImage(IMAGE_CACHE, 'slim')
  if (image === null)
    throw new Error('There is no image of virtual machines. Make it with: npm run image -- --microvm')
  const imageDir = join(folder, 'images')
  const into = join(imageDir, basename(image.folder))
  await mkdir(into, { recursive: true })
  for (const name of [...Object.values(IMAGE_FILES), 'manifest.json']) {
    const from = join(image.folder, name)
    // A hard link takes no space. It cannot cross file systems, so a folder on another one gets a copy.
    await link(from, join(into, name)).catch(() => copyFile(from, join(into, name)))
  }
  const initramfs = join(folder, 'bridge.cpio')
  await writeFile(initramfs, await withBridge(image.initramfs))
  const chrootBase = join(folder, 'jails')
  await mkdir(chrootBase, { recursive: true, mode: 0o755 })
  const { kernel, root } = image
  return { imageDir, chrootBase, machines: { kernel, initramfs, root } }
}
