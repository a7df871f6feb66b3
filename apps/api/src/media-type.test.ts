import { describe, expect, it } from 'vitest'
import { DECIDING_BYTES, mediaTypeOf } from './media-type.ts'

const OTHER = 'application/octet-stream'
const TEXT = 'text/plain; charset=utf-8'
const CSV = 'text/csv; charset=utf-8'

/** The type of a whole file, of which only the first bytes are read. */
function typeOf(content: string | Uint8Array): string {
  const bytes = Buffer.from(content as string)
  return mediaTypeOf(bytes.subarray(0, DECIDING_BYTES), bytes.length)
}
const bytes = (text: string): Buffer => Buffer.from(text, 'latin1')

describe('the media type of a file', () => {
  it.each([
    ['image/png', '\x89PNG\r\n\x1a\n\0\0\0\rIHDR'],
    ['image/jpeg', '\xff\xd8\xff\xe0\0\x10JFIF'],
    ['image/gif', 'GIF89a\x01\0'],
    ['image/gif', 'GIF87a\x01\0'],
    ['image/webp', 'RIFF\x24\0\0\0WEBPVP8 '],
    ['image/avif', '\0\0\0\x1cftypavif\0\0\0\0'],
    ['application/pdf', '%PDF-1.7\n%\xe2\xe3'],
    // These only resemble a signature.
    [OTHER, '\x89PNG\n\x1a\n'],
    [OTHER, 'RIFF\x24\0\0\0WAVEfmt '],
    [OTHER, '\0\0\0\x1cftypmp42\0\0\0\0'],
    [OTHER, '\xff\xd8'],
    [OTHER, '\x7fELF\x02\x01\x01'],
    [OTHER, 'PK\x03\x04'],
  ])('is %s for %j', (type, start) => {
    expect(typeOf(bytes(start))).toBe(type)
  })

  it.each([
    [TEXT, 'plain'],
    [TEXT, 'grüße 🎉\n'],
    [TEXT, '\x1b[31mred\x1b[0m\n'],
    [OTHER, ''],
    [OTHER, 'a\0b'],
    [OTHER, 'a\x07b'],
    ['application/json', ' {"a": [1, -2.5e3, true, null, "x\\"y"]}\n'],
    ['application/json', '[]'],
    [TEXT, '{a: 1}'],
    [TEXT, '[INFO] started'],
    [TEXT, '"a string"'],
    [TEXT, '{"a": 1}\n{"a": 2}\n'],
    [CSV, 'a,b\n1,2\n'],
    [CSV, 'a,b\r\n"x, y","say ""no"""\r\n'],
    [TEXT, 'a,b\n1,2,3\n'],
    [TEXT, 'one, line'],
    // No browser may be told that this is a page.
    [TEXT, '<!doctype html><script>alert(1)</script>'],
    [TEXT, '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'],
    [TEXT, '<?xml version="1.0"?><svg/>'],
  ])('is %s for the text %j', (type, text) => {
    expect(typeOf(text)).toBe(type)
  })

  it('is not text if the bytes are no UTF-8', () => {
    expect(typeOf(bytes('gr\xfc\xdfe'))).toBe(OTHER)
    expect(typeOf(Buffer.from('é').subarray(0, 1))).toBe(OTHER)
  })

  it('of a long file is decided by its first part, wherever that is cut', () => {
    const objects = Array.from({ length: 900 }, (_, n) => ({
      n,
      'name 🎉': 'x\\"y',
      f: -1.5e-3 * n,
      b: [true, null],
    }))
    const json = Buffer.from(JSON.stringify(objects))
    const csv = Buffer.from('id,"na,me"\n' + '1,"é"\n'.repeat(900))
    for (let cut = 40; cut < 200; cut += 1) {
      expect([cut, mediaTypeOf(json.subarray(0, cut), json.length)]).toEqual([cut, 'application/json'])
      expect([cut, mediaTypeOf(csv.subarray(0, cut), csv.length)]).toEqual([cut, CSV])
    }
    expect(typeOf(json)).toBe('application/json')
    expect(typeOf('{"a": 1}\n'.repeat(900))).toBe(TEXT)
    expect(typeOf('[INFO] x\n'.repeat(900))).toBe(TEXT)
    expect(typeOf('é'.repeat(DECIDING_BYTES) + '\0')).toBe(TEXT)
  })

  it('is one of a few for any bytes, and takes no time worth naming', () => {
    let seed = 1
    for (let n = 0; n < 300; n += 1) {
      const random = Uint8Array.from({ length: n * 10 }, () => {
        seed = (seed * 1_664_525 + 1_013_904_223) % 2 ** 32
        return seed >>> 24
      })
      expect(mediaTypeOf(random, random.length)).toMatch(
        /^(image|application|text)\/[a-z-]+(; charset=utf-8)?$/,
      )
    }
    for (const hostile of ['{"' + '\\'.repeat(4094), '['.repeat(4096), '"'.repeat(4096), ',"'.repeat(2048)])
      expect(mediaTypeOf(Buffer.from(hostile), 10_000)).toMatch(/^(application\/json|text\/)/)
  })
})
