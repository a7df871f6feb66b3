/** A zip archive (uncompressed) of a small tree; the same tree gives the same bytes. APPNOTE 6.3 §4.3. */
import { crc32 } from 'node:zlib'

/** 1980-01-01, the earliest date of the format. */
const DOS_DATE = 0x21
/** `-rw-r--r--` of a regular file, in the upper half of the external attributes. */
const UNIX_MODE = 0o100644 * 0x1_00_00

export function zipArchive(files: ReadonlyMap<string, Buffer>): Buffer {
  const bodies: Buffer[] = []
  const directory: Buffer[] = []
  let at = 0
  for (const [path, content] of files) {
    const name = Buffer.from(path)
    // Version 2.0, flag 0x800 (names are UTF-8), method 0 (stored); shared by both headers.
    const shared = Buffer.alloc(26)
    shared.writeUInt16LE(20, 0)
    shared.writeUInt16LE(0x800, 2)
    shared.writeUInt16LE(DOS_DATE, 8)
    shared.writeUInt32LE(crc32(content), 10)
    shared.writeUInt32LE(content.length, 14)
    shared.writeUInt32LE(content.length, 18)
    shared.writeUInt16LE(name.length, 22)
    const local = Buffer.concat([Buffer.from('PK\u0003\u0004'), shared, name, content])
    const tail = Buffer.alloc(14)
    tail.writeUInt32LE(UNIX_MODE, 6)
    tail.writeUInt32LE(at, 10)
    // Made by Unix (3), version 2.0.
    directory.push(Buffer.from('PK\u0001\u0002'), Buffer.from([20, 3]), shared, tail, name)
    bodies.push(local)
    at += local.length
  }
  const central = Buffer.concat(directory)
  const end = Buffer.alloc(18)
  end.writeUInt16LE(files.size, 4)
  end.writeUInt16LE(files.size, 6)
  end.writeUInt32LE(central.length, 8)
  end.writeUInt32LE(at, 12)
  return Buffer.concat([...bodies, central, Buffer.from('PK\u0005\u0006'), end])
}
