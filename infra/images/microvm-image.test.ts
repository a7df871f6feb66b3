/**
 * The parts of the image of virtual machines that we write ourselves. The whole: microvm-image.long.test.ts.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { makeInitramfs } from './microvm/initramfs.ts'
import { extractVmlinux, modulesInOrder } from './microvm/linux-kernel.ts'

const KERNEL = Buffer.from(`\x7fELF${'kernel '.repeat(40)}end`, 'latin1')

/** A bzImage with one sector of set-up code. */
function bzImage(packed: Buffer): Buffer {
  const head = Buffer.alloc(1024)
  const size = Buffer.alloc(4)
  size.writeUInt32LE(KERNEL.length)
  head.writeUInt8(1, 0x1f1)
  head.writeUInt32LE(0, 0x248)
  head.writeUInt32LE(packed.length + 4, 0x24c)
  return Buffer.concat([head, packed, size])
}

/** Eleven literals, then a match of seven bytes back that overlaps itself, then the last literals. */
function lz4(): Buffer {
  const literals = KERNEL.subarray(0, 11)
  const repeated = KERNEL.length - 11 - 3
  const more = repeated - 4 - 15
  const block = Buffer.concat([
    Buffer.from([(11 << 4) | 15]),
    literals,
    Buffer.from([7, 0, ...(more >= 255 ? [255, more - 255] : [more])]),
    Buffer.from([3 << 4]),
    KERNEL.subarray(-3),
  ])
  const length = Buffer.alloc(4)
  length.writeUInt32LE(block.length)
  return Buffer.concat([Buffer.from([0x02, 0x21, 0x4c, 0x18]), length, block])
}

it.each([
  ['LZ4', lz4()],
  ['zstd', zstdCompressSync(KERNEL)],
  ['gzip', gzipSync(KERNEL)],
])('unpacks a kernel that is packed with %s', (_name, packed) => {
  expect(extractVmlinux(bzImage(packed)).toString('latin1')).toBe(KERNEL.toString('latin1'))
})

it('refuses a kernel that it cannot unpack', () => {
  expect(() => extractVmlinux(bzImage(Buffer.from('BZh9 and more')))).toThrow('not known here')
})

it('puts each module after those that it needs, and leaves out what is built in', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-modules-'))
  try {
    mkdirSync(join(folder, 'kernel/drivers'), { recursive: true })
    const write = (name: string, depends: string): void =>
      writeFileSync(join(folder, 'kernel/drivers', `${name}.ko`), `\x7fELF\0depends=${depends}\0name=x\0`)
    write('virtio_console', 'virtio,virtio-ring')
    write('virtio-ring', '')
    write('virtio', 'virtio_ring')
    const modules = await modulesInOrder(folder, ['built_in', 'virtio_console'])
    expect(modules.map(({ name }) => name)).toEqual(['virtio_ring.ko', 'virtio.ko', 'virtio_console.ko'])
  } finally {
    rmSync(folder, { recursive: true })
  }
})

it('makes the same archive twice, which other programs can read, and loads no spare module', () => {
  const make = (): Buffer =>
    makeInitramfs(
      Buffer.from('busybox'),
      ['vm_init.py', 'vm_agent.py', 'vm_ports.py'].map((name) => ({
        name,
        bytes: Buffer.from('init of the machine'),
      })),
      [{ name: 'erofs.ko', bytes: Buffer.from('abc') }],
      [{ name: 'spare.ko', bytes: Buffer.from('def') }],
    )
  const archive = make()
  expect(make()).toEqual(archive)
  expect(archive.toString('latin1').match(/insmod .*/g)).toEqual(['insmod /modules/erofs.ko'])
  expect(archive.length % 4).toBe(0)
  const names: string[] = []
  for (let at = 0; at < archive.length;) {
    expect(archive.toString('latin1', at, at + 6)).toBe('070701')
    const field = (index: number): number =>
      Number.parseInt(archive.toString('latin1', at + 6 + index * 8, at + 14 + index * 8), 16)
    names.push(archive.toString('latin1', at + 110, at + 110 + field(11) - 1))
    const end = at + Math.ceil((110 + field(11)) / 4) * 4
    at = end + Math.ceil(field(6) / 4) * 4
  }
  expect(names).toEqual([
    'bin',
    'dev',
    'modules',
    'new',
    'dev/console',
    'bin/busybox',
    'init',
    'vm_init.py',
    'vm_agent.py',
    'vm_ports.py',
    'modules/erofs.ko',
    'modules/spare.ko',
    'TRAILER!!!',
  ])
})
