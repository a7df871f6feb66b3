import fc from 'fast-check'
import { expect, it } from 'vitest'
import { imageKind, MOST_PIXELS } from './image-kind.ts'

const bytes = (...parts: (string | number[])[]): Uint8Array =>
  Uint8Array.from(
    parts.flatMap((part) =>
      typeof part === 'string' ? Array.from(part, (sign) => sign.charCodeAt(0)) : part,
    ),
  )
const PAD = Array.from({ length: 40 }, () => 0)
const png = (width: number, height: number): Uint8Array => {
  const size = new DataView(new ArrayBuffer(8))
  size.setUint32(0, width)
  size.setUint32(4, height)
  const dimensions = [...new Uint8Array(size.buffer)]
  return bytes([0x89], 'PNG\r\n\u001a\n', [0, 0, 0, 13], 'IHDR', dimensions, PAD)
}

it('knows the kinds by their content, with their size', () => {
  expect(imageKind(png(320, 160))).toEqual({ type: 'image/png', width: 320, height: 160 })
  expect(imageKind(bytes('GIF89a', [3, 0, 2, 0], PAD))).toEqual({ type: 'image/gif', width: 3, height: 2 })
  const frame = [0xff, 0xc0, 0, 17, 8, 0, 2, 0, 3]
  expect(imageKind(bytes([0xff, 0xd8, 0xff, 0xe0, 0, 4, 1, 1], frame, PAD))).toEqual({
    type: 'image/jpeg',
    width: 3,
    height: 2,
  })
  expect(
    imageKind(bytes('RIFF', [0, 0, 0, 0], 'WEBPVP8X', PAD.slice(0, 8), [4, 0, 0, 1, 0, 0], PAD)),
  ).toEqual({
    type: 'image/webp',
    width: 5,
    height: 2,
  })
  const ispe = bytes([0, 0, 0, 20], 'ispe', [0, 0, 0, 0], [0, 0, 0, 7], [0, 0, 0, 5])
  expect(imageKind(bytes([0, 0, 0, 28], 'ftypavif', PAD, [...ispe]))).toEqual({
    type: 'image/avif',
    width: 7,
    height: 5,
  })
})

it.each([
  ['a page', '<!doctype html><script>alert(1)</script>'.repeat(3)],
  ['a drawing with scripts', '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'],
  ['nothing', ''],
  ['a start without a size', '\u00ff\u00d8' + 'x'.repeat(50)],
])('takes %s for no image', (_, text) => {
  expect(imageKind(bytes(text))).toBeNull()
})

it('refuses an image that would fill the memory', () => {
  expect(imageKind(png(5000, MOST_PIXELS / 5000))).not.toBeNull()
  expect(imageKind(png(5000, MOST_PIXELS / 5000 + 1))).toBeNull()
  expect(imageKind(png(0, 10))).toBeNull()
  expect(imageKind(png(2 ** 31, 2 ** 31))).toBeNull()
})

it('reads any bytes without failing', () => {
  const start = fc.constantFrom(
    [0xff, 0xd8, 0xff],
    [...bytes('RIFF0000WEBPVP8L')],
    [...bytes('0000ftypavif')],
  )
  fc.assert(
    fc.property(start, fc.uint8Array({ maxLength: 200 }), (head, rest) => {
      const kind = imageKind(Uint8Array.from([...head, ...rest]))
      expect(kind === null || kind.width * kind.height <= MOST_PIXELS).toBe(true)
    }),
  )
})
