/** Finds the media type of an image from its first bytes, because a file name can be wrong. */

const ascii = (text: string): number[] => Array.from(text, (character) => character.charCodeAt(0))

/** Media type → the bytes that must be at each offset. */
const SIGNATURES: readonly [string, readonly (readonly [number, readonly number[]])[]][] = [
  ['image/png', [[0, [0x89, ...ascii('PNG\r\n\u001a\n')]]]],
  ['image/jpeg', [[0, [0xff, 0xd8, 0xff]]]],
  ['image/gif', [[0, ascii('GIF87a')]]],
  ['image/gif', [[0, ascii('GIF89a')]]],
  [
    'image/webp',
    [
      [0, ascii('RIFF')],
      [8, ascii('WEBP')],
    ],
  ],
]

/** The type of an image that models take. Null for everything else. */
export function imageTypeOf(bytes: Uint8Array): string | null {
  const has = (at: number, expected: readonly number[]): boolean =>
    expected.every((byte, offset) => bytes[at + offset] === byte)
  return SIGNATURES.find(([, places]) => places.every(([at, expected]) => has(at, expected)))?.[0] ?? null
}
