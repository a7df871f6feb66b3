/**
 * Finds the image type of bytes by their content, because a program chose the file's name. Accepts only types
 * that a browser decodes without running anything, and only sizes that fit into its memory.
 */

export interface ImageKind {
  type: 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp' | 'image/avif'
  width: number
  height: number
}

/** More pixels than this take more than 100 MB when they are decoded. */
export const MOST_PIXELS = 25_000_000

const ascii = (view: DataView, at: number, length: number): string =>
  at + length > view.byteLength
    ? ''
    : String.fromCharCode(...Array.from({ length }, (_, index) => view.getUint8(at + index)))

/** The size in a JPEG’s first frame header. Null without one. */
function jpegSize(view: DataView): { width: number; height: number } | null {
  let at = 2
  while (at + 9 < view.byteLength) {
    if (view.getUint8(at) !== 0xff) return null
    const marker = view.getUint8(at + 1)
    const isFrame = marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)
    if (isFrame) return { height: view.getUint16(at + 5), width: view.getUint16(at + 7) }
    // Fill bytes and markers without content.
    if (marker === 0xff) at += 1
    else if (marker >= 0xd0 && marker <= 0xd9) at += 2
    else at += 2 + view.getUint16(at + 2)
  }
  return null
}

function webpSize(view: DataView): { width: number; height: number } | null {
  if (view.byteLength < 30) return null
  const three = (at: number): number => view.getUint16(at, true) + (view.getUint8(at + 2) << 16)
  switch (ascii(view, 12, 4)) {
    case 'VP8X':
      return { width: three(24) + 1, height: three(27) + 1 }
    case 'VP8L': {
      const bits = view.getUint32(21, true)
      return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 }
    }
    case 'VP8 ':
      return { width: view.getUint16(26, true) & 0x3fff, height: view.getUint16(28, true) & 0x3fff }
    default:
      return null
  }
}

/** The largest size in the `ispe` properties of an AVIF, which are near its start. */
function avifSize(view: DataView): { width: number; height: number } | null {
  let size: { width: number; height: number } | null = null
  for (let at = 0; at + 16 <= Math.min(view.byteLength, 65_536); at += 1) {
    // The letters i, s, p, e as one number.
    if (view.getUint32(at) !== 0x69737065) continue
    const found = { width: view.getUint32(at + 8), height: view.getUint32(at + 12) }
    if (size === null || found.width * found.height > size.width * size.height) size = found
  }
  return size
}

function kindOf(view: DataView): ImageKind | null {
  const made = (type: ImageKind['type'], size: { width: number; height: number } | null) =>
    size === null ? null : { type, ...size }
  if (view.byteLength < 24) return null
  if (view.getUint32(0) === 0x89504e47 && view.getUint32(4) === 0x0d0a1a0a && ascii(view, 12, 4) === 'IHDR')
    return made('image/png', { width: view.getUint32(16), height: view.getUint32(20) })
  if (/^GIF8[79]a$/.test(ascii(view, 0, 6)))
    return made('image/gif', { width: view.getUint16(6, true), height: view.getUint16(8, true) })
  if (view.getUint16(0) === 0xffd8) return made('image/jpeg', jpegSize(view))
  if (ascii(view, 0, 4) === 'RIFF' && ascii(view, 8, 4) === 'WEBP') return made('image/webp', webpSize(view))
  if (ascii(view, 4, 4) === 'ftyp' && /^avi[fs]$/.test(ascii(view, 8, 4)))
    return made('image/avif', avifSize(view))
  return null
}

/** The kind of an image that may be shown. Null for everything else. */
export function imageKind(bytes: Uint8Array): ImageKind | null {
  const kind = kindOf(new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  if (kind === null || kind.width === 0 || kind.height === 0) return null
  return kind.width * kind.height <= MOST_PIXELS ? kind : null
}
