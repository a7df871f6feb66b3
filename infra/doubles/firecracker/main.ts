/**
 * `node infra/doubles/firecracker/main.ts --dir FOLDER` puts the two programs into a folder and prints one
 * line of JSON. They need no server, so it ends only when it is stopped, and then removes them. With
 * `--machines` each machine is one of QEMU, and the folder also gets the image.
 */
import { mkdirSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { installDouble } from './install-double.ts'
import { installImage } from './install-image.ts'

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
