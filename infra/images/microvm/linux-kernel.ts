/**
 * The kernel of a Debian package as the ELF file that QEMU and Firecracker start directly (PVH), and its
 * modules in the order in which they load. Needs no kmod and no kernel tools.
 */
import { readdir, readFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { run } from '../command.ts'

// Fields of the boot header (Documentation/arch/x86/boot.rst).
const SETUP_SECTORS = 0x1f1
const PAYLOAD_OFFSET = 0x248
const PAYLOAD_LENGTH = 0x24c

/** Unpacks the payload of a bzImage. Throws for a compression that is not known here. */
export function extractVmlinux(bzImage: Buffer): Buffer {
  const sectors = bzImage.readUInt8(SETUP_SECTORS) || 4
  const start = (sectors + 1) * 512 + bzImage.readUInt32LE(PAYLOAD_OFFSET)
  // The last four bytes are the size after decompression.
  const payload = bzImage.subarray(start, start + bzImage.readUInt32LE(PAYLOAD_LENGTH))
  const packed = payload.subarray(0, payload.length - 4)
  const size = payload.readUInt32LE(payload.length - 4)
  const magic = packed.readUInt32LE(0)
  const kernel =
    magic === LZ4_LEGACY
      ? unpackLz4(packed, size)
      : magic === 0xfd2fb528
        ? zstdDecompressSync(packed)
        : (magic & 0xffff) === 0x8b1f
          ? gunzipSync(packed)
          : null
  if (kernel === null) throw new Error(`the kernel is packed in a way that is not known here (${magic})`)
  if (kernel.toString('latin1', 0, 4) !== '\x7fELF') throw new Error('the kernel’s payload is no ELF file')
  return kernel
}

const LZ4_LEGACY = 0x184c2102

/** The legacy frame of LZ4: a magic number, then blocks with their packed size before them. */
function unpackLz4(packed: Buffer, size: number): Buffer {
  const out = Buffer.alloc(size)
  let at = 4
  let end = 0
  while (at + 4 <= packed.length) {
    const length = packed.readUInt32LE(at)
    at += 4
    end = unpackBlock(packed.subarray(at, at + length), out, end)
    at += length
  }
  if (end !== size) throw new Error(`the kernel has ${end} bytes after unpacking, not ${size}`)
  return out
}

function unpackBlock(block: Buffer, out: Buffer, start: number): number {
  let at = 0
  let end = start
  const longer = (short: number): number => {
    let length = short
    if (short !== 15) return length
    for (let more = 255; more === 255;) {
      more = block.readUInt8(at++)
      length += more
    }
    return length
  }
  while (at < block.length) {
    const token = block.readUInt8(at++)
    const literals = longer(token >> 4)
    block.copy(out, end, at, at + literals)
    at += literals
    end += literals
    if (at >= block.length) break
    const from = end - block.readUInt16LE(at)
    at += 2
    const length = longer(token & 15) + 4
    // Source and target may overlap, which repeats a pattern.
    for (let n = 0; n < length; n++) out[end + n] = out[from + n] ?? 0
    end += length
  }
  return end
}

/**
 * Files of the named modules and of their dependencies. Each module comes after its dependencies. A name
 * without a file is built into the kernel. `folder` is `lib/modules/<release>` of the unpacked package.
 */
export async function modulesInOrder(folder: string, names: readonly string[]): Promise<Module[]> {
  const files = new Map<string, string>()
  for (const entry of await readdir(join(folder, 'kernel'), { recursive: true, withFileTypes: true })) {
    const [, name] = /^(.+)\.ko(?:\.xz)?$/.exec(entry.name) ?? []
    if (name !== undefined) files.set(name.replaceAll('-', '_'), join(entry.parentPath, entry.name))
  }
  const found = new Map<string, Module>()
  async function add(wanted: string): Promise<void> {
    const name = wanted.replaceAll('-', '_')
    const file = files.get(name)
    if (file === undefined || found.has(name)) return
    const bytes = await moduleBytes(file)
    for (const needed of needsOf(bytes)) await add(needed)
    found.set(name, { name: `${name}.ko`, bytes })
  }
  for (const name of names) await add(name)
  return [...found.values()]
}

export interface Module {
  name: string
  bytes: Buffer
}

async function moduleBytes(file: string): Promise<Buffer> {
  if (!file.endsWith('.xz')) return await readFile(file)
  await run('xz', ['-dk', file])
  return await readFile(join(file, '..', basename(file, '.xz')))
}

/** Reads a module's dependencies from its section .modinfo, where `depends=a,b` is between two zero bytes. */
function needsOf(bytes: Buffer): string[] {
  const at = bytes.indexOf('\0depends=')
  if (at < 0) return []
  const end = bytes.indexOf(0, at + 1)
  return bytes
    .toString('latin1', at + '\0depends='.length, end)
    .split(',')
    .filter(Boolean)
}
