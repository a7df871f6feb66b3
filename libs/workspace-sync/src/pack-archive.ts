/** Packs a workspace as a zip archive (APPNOTE 6.3 §4.3). The same files give the same bytes. */
import { promisify } from 'node:util'
import { crc32, deflateRaw } from 'node:zlib'
import type { ProgramFile } from '@cofferdam/contract'
import { ArchiveRefusal } from './archive-refusal.ts'
import { DEFAULT_ARCHIVE_LIMITS, type ArchiveLimits } from './limits.ts'
import { createPathIndex, isCarriable } from './path-index.ts'

const deflate = promisify(deflateRaw)
/** 1980-01-01, the earliest date of the format. */
const DOS_DATE = 0x21
const METHOD = { stored: 0, deflated: 8 } as const

/**
 * Throws ArchiveRefusal for files that `unpackArchive` would refuse. Files in too many folders are packed,
 * because an older workspace may have them. No file is left out silently.
 */
export async function packArchive(
  files: readonly ProgramFile[],
  limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
): Promise<Buffer> {
  refuseOversize(files, limits)
  const index = createPathIndex()
  const bodies: Buffer[] = []
  const directory: Buffer[] = []
  const packed = new Set<string>()
  let at = 0
  for (const file of files.toSorted((a, b) => (a.path < b.path ? -1 : 1))) {
    if (!isCarriable(file.path)) throw new ArchiveRefusal('bad_name', file.path)
    if (packed.has(file.path)) throw new ArchiveRefusal('duplicate', file.path)
    if (index.clashes(file.path)) throw new ArchiveRefusal('name_collision', file.path)
    packed.add(file.path)
    index.add(file.path)
    const { local, central } = await entryOf(file, at, limits)
    bodies.push(...local)
    directory.push(...central)
    at += local.reduce((sum, part) => sum + part.length, 0)
  }
  const length = directory.reduce((sum, part) => sum + part.length, 0)
  const end = Buffer.alloc(22)
  end.write('PK\u0005\u0006', 'latin1')
  end.writeUInt16LE(files.length, 8)
  end.writeUInt16LE(files.length, 10)
  end.writeUInt32LE(length, 12)
  end.writeUInt32LE(at, 16)
  return Buffer.concat([...bodies, ...directory, end])
}

function refuseOversize(files: readonly ProgramFile[], limits: ArchiveLimits): void {
  if (files.length > limits.entries) throw new ArchiveRefusal('too_many_entries', null)
  let total = 0
  for (const { path, bytes } of files) {
    total += bytes.length
    if (bytes.length > limits.fileBytes) throw new ArchiveRefusal('file_too_large', path)
    if (total > limits.totalBytes) throw new ArchiveRefusal('total_too_large', path)
  }
}

async function entryOf(file: ProgramFile, at: number, limits: ArchiveLimits) {
  const name = Buffer.from(file.path)
  const deflated = await deflate(file.bytes)
  // A file is deflated only if its ratio is below half of the limit, so that the whole archive stays below
  // the limit.
  const isWorth =
    deflated.length < file.bytes.length && deflated.length * (limits.ratio / 2) > file.bytes.length
  const body = isWorth ? deflated : Buffer.from(file.bytes)
  // The same in the local and the central header: version 2.0, flag 0x800 (names are UTF-8), method, date,
  // CRC-32, sizes and the length of the name.
  const shared = Buffer.alloc(26)
  shared.writeUInt16LE(20, 0)
  shared.writeUInt16LE(0x800, 2)
  shared.writeUInt16LE(isWorth ? METHOD.deflated : METHOD.stored, 4)
  shared.writeUInt16LE(DOS_DATE, 8)
  shared.writeUInt32LE(crc32(file.bytes), 10)
  shared.writeUInt32LE(body.length, 14)
  shared.writeUInt32LE(file.bytes.length, 18)
  shared.writeUInt16LE(name.length, 22)
  const tail = Buffer.alloc(14)
  // The upper half of the external attributes is the Unix mode of a regular file.
  tail.writeUInt32LE((0o100000 | (file.executable === true ? 0o755 : 0o644)) * 0x1_00_00, 6)
  tail.writeUInt32LE(at, 10)
  return {
    local: [Buffer.from('PK\u0003\u0004', 'latin1'), shared, name, body],
    // Made by Unix (3), version 2.0.
    central: [Buffer.from('PK\u0001\u0002', 'latin1'), Buffer.from([20, 3]), shared, tail, name],
  }
}
