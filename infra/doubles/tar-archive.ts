/** A gzipped tar (ustar) of a small tree; the same tree gives the same bytes. Paths up to 100 bytes. */
import { gzipSync } from 'node:zlib'

const BLOCK = 512

export function tarArchive(files: ReadonlyMap<string, Buffer>): Buffer {
  const blocks = [...files].flatMap(([path, content]) => [
    header(path, content.length),
    content,
    Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK),
  ])
  return gzipSync(Buffer.concat([...blocks, Buffer.alloc(2 * BLOCK)]))
}

function header(path: string, size: number): Buffer {
  if (Buffer.byteLength(path) > 100) throw new Error(`expected a path of at most 100 bytes, got ${path}`)
  const block = Buffer.alloc(BLOCK)
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`
  block.write(path, 0)
  block.write(octal(0o644, 7), 100)
  block.write(octal(0, 7) + octal(0, 7), 108)
  // 1985-10-26, the time in npm's archives, so that the same tree gives the same digest.
  block.write(octal(size, 11) + octal(499_162_500, 11), 124)
  block.write(' '.repeat(8) + '0', 148)
  block.write('ustar\u000000', 257)
  const sum = block.reduce((total, byte) => total + byte, 0)
  block.write(`${octal(sum, 6)} `, 148)
  return block
}
