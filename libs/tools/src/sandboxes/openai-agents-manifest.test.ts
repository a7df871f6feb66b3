import { expect, it } from 'vitest'
import { imageTypeOf } from '../image-type.ts'
import { checkManifest, modeOf } from './openai-agents-manifest.ts'
import { WORK_FOLDER } from './session-sandbox.ts'
import { storedManifest } from './stored-manifest.ts'

const manifest = {
  version: 1,
  root: WORK_FOLDER,
  entries: {},
  environment: {},
  users: [],
  groups: [],
  extraPathGrants: [],
  resolveEnvironment: async () => ({}),
}

it('reads permissions in every form of the SDK', () => {
  expect(modeOf(0o755)).toBe(0o755)
  expect(modeOf('-rwxr-x--x')).toBe(0o751)
  expect(modeOf('drw-------')).toBe(0o600)
  expect(modeOf({ owner: 6, group: 4, other: 4 })).toBe(0o644)
  expect(modeOf({})).toBe(0o700)
  for (const wrong of ['rwx', '-rwsr-xr-x', null, undefined])
    expect(() => modeOf(wrong)).toThrow('permissions')
})

it('refuses what a session does not have', () => {
  expect(() => checkManifest(manifest)).not.toThrow()
  expect(() => checkManifest({ ...manifest, users: ['root'] })).toThrow('users')
  expect(() => checkManifest({ ...manifest, extraPathGrants: [{ path: '/data' }] })).toThrow('outside')
})

it('stores a manifest as JSON, without bytes and ephemeral values', () => {
  const stored = storedManifest({
    ...manifest,
    entries: {
      'a.txt': { type: 'file', content: 'x' },
      d: { type: 'dir', children: { 'b.bin': { type: 'file', content: new Uint8Array(3) } } },
    },
    environment: { KEPT: { value: '1', ephemeral: false }, SECRET: { value: '2', ephemeral: true } },
  })
  expect(JSON.parse(JSON.stringify(stored))).toEqual({
    version: 1,
    root: WORK_FOLDER,
    entries: {
      'a.txt': { type: 'file', content: 'x' },
      d: { type: 'dir', children: { 'b.bin': { type: 'file', content: '' } } },
    },
    environment: { KEPT: { value: '1' } },
  })
})

it('knows images by their bytes', () => {
  const types = ['\x89PNG\r\n\x1a\n', '\xff\xd8\xff\xe0', 'GIF89a', 'RIFF0000WEBP', 'RIFF0000WAVE', 'GIF', '']
  const found = types.map((text) => imageTypeOf(Buffer.from(text, 'latin1')))
  expect(found).toEqual(['image/png', 'image/jpeg', 'image/gif', 'image/webp', null, null, null])
})
