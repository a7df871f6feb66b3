/**
 * Reads an untrusted zip archive. Checks names, types, sizes and offsets before anything is unpacked, and
 * compares the unpacked files with the directory. Accepts an archive as a whole or not at all.
 */
import { promisify } from 'node:util'
import { crc32, inflateRaw } from 'node:zlib'
import type { ProgramFile } from '@cofferdam/contract'
import { ArchiveRefusal } from './archive-refusal.ts'
import { DEFAULT_ARCHIVE_LIMITS, MAX_FOLDER_ENTRIES, type ArchiveLimits } from './limits.ts'
import { createPathIndex, isCarriable, isTooDeep } from './path-index.ts'
import { withPauses } from './pauses.ts'

const inflate = promisify(inflateRaw)
const EOCD = 0x06054b50
const CENTRAL = 0x02014b50
const LOCAL = 0x04034b50
/** A record of 22 bytes and a comment of up to 65,535 bytes. */
const EOCD_SEARCH = 65_557
const ENCRYPTED = 0x1 | 0x40 | 0x2000
const S_IFMT = 0o170000
const [S_IFREG, S_IFDIR] = [0o100000, 0o040000]
/** MS-DOS attributes that are neither file nor folder: volume label (8) and reparse point (0x400), a link. */
const DOS_ODD = 0x8 | 0x400

interface DirectoryEntry {
  name: string
  isFolder: boolean
  executable: boolean
  method: number
  crc: number
  packed: number
  size: number
  at: number
}

/** Throws ArchiveRefusal. */
export async function unpackArchive(
  archive: Uint8Array,
  limits: ArchiveLimits = DEFAULT_ARCHIVE_LIMITS,
): Promise<ProgramFile[]> {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.length)
  const { entries, directoryAt } = readDirectory(bytes, limits)
  const files = entries.filter(({ isFolder }) => !isFolder)
  // This check comes before the names are indexed, because indexing costs the most.
  if (files.length > limits.entries) throw new ArchiveRefusal('too_many_entries', null)
  await withPauses(refuseNames(entries))
  refuseSizes(files, bytes.length, limits)
  const places = placesOf(bytes, entries, directoryAt)
  const unpacked: ProgramFile[] = []
  for (const file of files) {
    const place = places.get(file) ?? 0
    const content = await contentOf(file, bytes.subarray(place, place + file.packed))
    unpacked.push({ path: file.name, bytes: content, ...(file.executable ? { executable: true } : {}) })
  }
  return unpacked
}

function readDirectory(bytes: Buffer, limits: ArchiveLimits) {
  const end = findEnd(bytes)
  const count = bytes.readUInt16LE(end + 10)
  const length = bytes.readUInt32LE(end + 12)
  const directoryAt = bytes.readUInt32LE(end + 16)
  const disks = [bytes.readUInt16LE(end + 4), bytes.readUInt16LE(end + 6)]
  if (count === 0xffff || length === 0xffffffff || directoryAt === 0xffffffff)
    throw new ArchiveRefusal('unsupported', null)
  if (disks.some((disk) => disk !== 0) || bytes.readUInt16LE(end + 8) !== count)
    throw new ArchiveRefusal('unsupported', null)
  if (count > limits.entries + MAX_FOLDER_ENTRIES) throw new ArchiveRefusal('too_many_entries', null)
  // With bytes between directory and end record, two readers could see two different archives.
  if (directoryAt + length !== end) throw new ArchiveRefusal('not_an_archive', null)
  const entries: DirectoryEntry[] = []
  let at = directoryAt
  for (let index = 0; index < count; index += 1) {
    const { entry, next } = readEntry(bytes, at, end)
    entries.push(entry)
    at = next
  }
  if (at !== end) throw new ArchiveRefusal('not_an_archive', null)
  return { entries, directoryAt }
}

/** The last end record whose comment ends exactly at the end of the archive. */
function findEnd(bytes: Buffer): number {
  for (let at = bytes.length - 22; at >= Math.max(0, bytes.length - EOCD_SEARCH); at -= 1)
    if (bytes.readUInt32LE(at) === EOCD && at + 22 + bytes.readUInt16LE(at + 20) === bytes.length) return at
  throw new ArchiveRefusal('not_an_archive', null)
}

function readEntry(bytes: Buffer, at: number, end: number): { entry: DirectoryEntry; next: number } {
  if (at + 46 > end || bytes.readUInt32LE(at) !== CENTRAL) throw new ArchiveRefusal('not_an_archive', null)
  const nameLength = bytes.readUInt16LE(at + 28)
  const next = at + 46 + nameLength + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32)
  if (next > end) throw new ArchiveRefusal('not_an_archive', null)
  const raw = bytes.subarray(at + 46, at + 46 + nameLength)
  const name = utf8(raw)
  const flags = bytes.readUInt16LE(at + 8)
  const method = bytes.readUInt16LE(at + 10)
  const [packed, size] = [bytes.readUInt32LE(at + 20), bytes.readUInt32LE(at + 24)]
  const isZip64 = [packed, size, bytes.readUInt32LE(at + 42)].includes(0xffffffff)
  if ((flags & ENCRYPTED) !== 0 || (method !== 0 && method !== 8) || isZip64)
    throw new ArchiveRefusal('unsupported', name)
  const attributes = bytes.readUInt32LE(at + 38)
  const mode = attributes >>> 16
  const isFolder = name.endsWith('/')
  const type = mode & S_IFMT
  const isPlain = type === 0 || type === (isFolder ? S_IFDIR : S_IFREG)
  if (!isPlain || (attributes & DOS_ODD) !== 0) throw new ArchiveRefusal('not_a_file', name)
  if (isFolder && size !== 0) throw new ArchiveRefusal('corrupt', name)
  return {
    entry: {
      name: isFolder ? name.slice(0, -1) : name,
      isFolder,
      executable: !isFolder && (mode & 0o100) !== 0,
      method,
      crc: bytes.readUInt32LE(at + 16),
      packed,
      size,
      at: bytes.readUInt32LE(at + 42),
    },
    next,
  }
}

/** Refuses names in other code pages, because their encoding is unknown. */
function utf8(raw: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(raw)
  } catch {
    throw new ArchiveRefusal('bad_name', raw.toString('latin1'))
  }
}

/** Yields after each entry. */
function* refuseNames(entries: readonly DirectoryEntry[]): Generator<void, void> {
  const index = createPathIndex()
  const seen = new Set<string>()
  for (const { name, isFolder } of entries) {
    yield
    if (isTooDeep(name)) throw new ArchiveRefusal('too_deep', name)
    if (!isCarriable(name)) throw new ArchiveRefusal('bad_name', name)
    if (seen.has(name)) throw new ArchiveRefusal('duplicate', name)
    seen.add(name)
    if (isFolder) continue
    if (index.clashes(name)) throw new ArchiveRefusal('name_collision', name)
    index.add(name)
  }
  // A folder entry may have the name of a folder that contains files, but not the name of a file.
  for (const { name, isFolder } of entries) {
    yield
    if (isFolder && index.clashes(`${name}/-`)) throw new ArchiveRefusal('name_collision', name)
  }
}

function refuseSizes(files: readonly DirectoryEntry[], packed: number, limits: ArchiveLimits): void {
  let total = 0
  for (const { name, size } of files) {
    total += size
    if (size > limits.fileBytes) throw new ArchiveRefusal('file_too_large', name)
    if (total > limits.totalBytes) throw new ArchiveRefusal('total_too_large', name)
  }
  if (total > packed * limits.ratio) throw new ArchiveRefusal('ratio', null)
}

/** Where each entry's bytes start. Entries must not overlap, and must be before the directory. */
function placesOf(bytes: Buffer, entries: readonly DirectoryEntry[], directoryAt: number) {
  const places = new Map<DirectoryEntry, number>()
  let free = 0
  for (const entry of entries.toSorted((a, b) => a.at - b.at)) {
    const { at, name, packed } = entry
    if (at < free) throw new ArchiveRefusal('overlap', name)
    if (at + 30 > directoryAt || bytes.readUInt32LE(at) !== LOCAL)
      throw new ArchiveRefusal('not_an_archive', name)
    const nameLength = bytes.readUInt16LE(at + 26)
    const place = at + 30 + nameLength + bytes.readUInt16LE(at + 28)
    const localName = bytes.subarray(at + 30, at + 30 + nameLength).toString()
    // A reader that uses local headers must see the same archive as we do.
    if (localName !== (entry.isFolder ? `${name}/` : name) || bytes.readUInt16LE(at + 8) !== entry.method)
      throw new ArchiveRefusal('corrupt', name)
    free = place + packed
    if (free > directoryAt) throw new ArchiveRefusal('not_an_archive', name)
    places.set(entry, place)
  }
  return places
}

async function contentOf(file: DirectoryEntry, packed: Buffer): Promise<Buffer> {
  const content = file.method === 0 ? Buffer.from(packed) : await inflated(file, packed)
  if (content.length !== file.size || crc32(content) !== file.crc)
    throw new ArchiveRefusal('corrupt', file.name)
  return content
}

async function inflated(file: DirectoryEntry, packed: Buffer): Promise<Buffer> {
  try {
    return await inflate(packed, { maxOutputLength: Math.max(1, file.size) })
  } catch {
    throw new ArchiveRefusal('corrupt', file.name)
  }
}
