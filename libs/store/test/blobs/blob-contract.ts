/** What every blob store does, wherever it keeps the bytes. Each test gets an empty one. */
import { randomBytes } from 'node:crypto'
import { newExecutionId, type BlobKey } from '@cofferdam/contract'
import { describe, expect, it } from 'vitest'
import type { KeptBlobs } from '../../src/blobs/blob-store.ts'

/** A blob store whose stored bytes a test can see and change. */
export interface SeenBlobs {
  blobs: KeptBlobs
  /** Paths of everything that is stored, also of what is not committed yet. */
  stored(): Promise<string[]>
  read(path: string): Promise<Buffer>
  replace(path: string, bytes: Uint8Array): Promise<void>
  remove(path: string): Promise<void>
}

const MiB = 1024 * 1024
/** The edges of chunks (64 KiB encrypted, 256 KiB with hashes), and more than a part of an upload. */
const SIZES = [0, 1, 65_535, 65_536, 262_144, 262_145, 5 * MiB + 1]

export const blobKey = (changed: Partial<BlobKey> = {}): BlobKey => ({
  tenantId: 'acme',
  executionId: newExecutionId(),
  attempt: 1,
  encrypt: false,
  name: 'stdout',
  ...changed,
})

export async function putBlob(
  { blobs }: SeenBlobs,
  bytes: Uint8Array | string,
  changed: Partial<BlobKey> = {},
): Promise<string> {
  const sink = await blobs.create(blobKey(changed))
  const all = Buffer.from(bytes)
  // Pieces that do not end with chunks or parts.
  for (let at = 0; at < all.length; at += 700_001) await sink.write(all.subarray(at, at + 700_001))
  return await sink.commit()
}

export async function blobText({ blobs }: SeenBlobs, ref: string, range?: { start: number; end: number }) {
  const blob = await blobs.read(ref, range)
  return blob === null ? null : Buffer.from(blob.bytes).toString()
}

/** `seen` returns the store of the running test. It has an output key. */
export function exerciseBlobs(name: string, seen: () => SeenBlobs): void {
  describe(`the blob store in ${name}`, () => {
    it.each([false, true])(
      'returns what was written, whole and in ranges (encrypted: %s)',
      async (encrypt) => {
        for (const size of SIZES) {
          const bytes = randomBytes(size)
          const ref = await putBlob(seen(), bytes, { encrypt })
          const part = async (start: number, end: number) => {
            const found = await seen().blobs.read(ref, { start, end })
            expect(found?.total).toBe(size)
            return Buffer.from(found?.bytes ?? []).equals(
              bytes.subarray(Math.max(0, start), Math.max(0, end)),
            )
          }
          expect([size, await part(0, size)]).toEqual([size, true])
          for (const [start, end] of [
            [-5, 2],
            [size - 3, size + 9],
            [size + 5, size + 9],
            [65_000, 66_000],
          ] as const)
            expect([size, start, await part(start, end)]).toEqual([size, start, true])
          expect((await seen().blobs.read(ref))?.bytes).toHaveLength(size)
        }
      },
    )

    it('shows nothing before the commit and leaves nothing after an abort', async () => {
      for (const size of [4, 6 * MiB]) {
        const sink = await seen().blobs.create(blobKey())
        await sink.write(randomBytes(size))
        await sink.abort()
        await sink.abort()
        expect(await seen().stored()).toEqual([])
        await expect(sink.write(Buffer.from('more'))).rejects.toMatchObject({ code: 'internal' })
        await expect(sink.commit()).rejects.toMatchObject({ code: 'internal' })
      }
      const kept = await seen().blobs.create(blobKey())
      const ref = await kept.commit()
      await kept.abort()
      expect(await kept.commit()).toBe(ref)
      expect(await blobText(seen(), ref)).toBe('')
    })

    it('lets the caller reuse the memory of what was written', async () => {
      const sink = await seen().blobs.create(blobKey())
      const memory = Buffer.alloc(1000)
      for (const letter of 'abc') await sink.write(memory.fill(letter))
      const ref = await sink.commit()
      expect(await blobText(seen(), ref)).toBe(['a', 'b', 'c'].map((letter) => letter.repeat(1000)).join(''))
    })

    it("never lets a second writer of the same key replace the first one's blob", async () => {
      const same = blobKey()
      const [first, second] = [await putBlob(seen(), 'first', same), await putBlob(seen(), 'second', same)]
      expect([await blobText(seen(), first), await blobText(seen(), second)]).toEqual(['first', 'second'])
    })

    it('separates names that look alike to a file system', async () => {
      const refs = [
        await putBlob(seen(), '1', { tenantId: 'Acme' }),
        await putBlob(seen(), '2', { tenantId: 'acme' }),
        await putBlob(seen(), '3', { name: 'artifacts/a/b' }),
        await putBlob(seen(), '4', { name: 'artifacts/a_b' }),
      ]
      expect(new Set(refs.map((ref) => ref.toLowerCase())).size).toBe(4)
      expect(await Promise.all(refs.map((ref) => blobText(seen(), ref)))).toEqual(['1', '2', '3', '4'])
    })

    it.each([
      '../../../secret',
      '..',
      '/etc/passwd',
      'a\0b',
      'ü'.repeat(400),
      '',
      '-rf',
      'x-hashed',
      'x-sealed',
    ])('stores a blob with the name %j inside the folder of its execution', async (name) => {
      const key = blobKey({ name, tenantId: name })
      const ref = await putBlob(seen(), 'inside', key)
      expect(await blobText(seen(), ref)).toBe('inside')
      const [path = ''] = await seen().stored()
      expect(ref.split('#')[0]).toBe(path)
      expect(path.split('/')).toHaveLength(4)
      expect(path.split('/')[2]).toBe(key.executionId)
    })

    it.each(['../secret', '/etc/passwd', '', '.', 'a/b/c/d', '..%2fsecret', '../'.repeat(8) + 'etc/passwd'])(
      'finds nothing for the reference %j',
      async (ref) => {
        expect(await seen().blobs.read(ref)).toBe(null)
        await seen().blobs.delete(ref)
      },
    )

    it('refuses altered references', async () => {
      const ref = await putBlob(seen(), 'here')
      const [tenant, day, execution, file] = ref.split('/') as [string, string, string, string]
      for (const bent of [
        `${ref}/..`,
        `${ref}\n`,
        `./${ref}`,
        `${ref}-hashed`,
        [tenant, day, execution, '..', execution, file].join('/'),
        [tenant, '..', day, execution, file].join('/'),
        ref.replaceAll('/', '\\'),
        ref.toUpperCase(),
      ])
        expect(await seen().blobs.read(bent), bent).toBe(null)
      expect(await blobText(seen(), ref)).toBe('here')
    })

    it('deletes a blob, and does nothing the second time', async () => {
      const ref = await putBlob(seen(), 'gone')
      await seen().blobs.delete(ref)
      await seen().blobs.delete(ref)
      expect(await seen().blobs.read(ref)).toBe(null)
      expect(await seen().stored()).toEqual([])
    })

    it('says that a blob is gone when its bytes were removed', async () => {
      const ref = await putBlob(seen(), 'gone')
      for (const path of await seen().stored()) await seen().remove(path)
      expect(await seen().blobs.read(ref)).toBe(null)
    })

    it('refuses an encrypted blob that was altered, cut or exchanged', async () => {
      const ref = await putBlob(seen(), randomBytes(200_000), { encrypt: true })
      const [path = ''] = await seen().stored()
      const bytes = await seen().read(path)
      const flipped = Buffer.from(bytes)
      flipped[100_000] = (flipped[100_000] ?? 0) ^ 1
      for (const change of [flipped, bytes.subarray(0, 150_000), Buffer.from('short'), Buffer.alloc(0)]) {
        await seen().replace(path, change)
        await expect(seen().blobs.read(ref)).rejects.toMatchObject({ code: 'stored_data_damaged' })
      }
      await seen().replace(path, bytes)
      expect((await seen().blobs.read(ref))?.total).toBe(200_000)
    })

    it('refuses invalid execution IDs and far too large blobs', async () => {
      const { blobs } = seen()
      await expect(blobs.create(blobKey({ executionId: '../../x' }))).rejects.toMatchObject({
        code: 'invalid_request',
      })
      await expect(blobs.create(blobKey({ attempt: 0.5 }))).rejects.toMatchObject({ code: 'invalid_request' })
      const sink = await blobs.create(blobKey())
      await expect(sink.write(Buffer.alloc(64 * MiB + 1))).rejects.toMatchObject({
        code: 'payload_too_large',
      })
      await sink.abort()
      expect(await seen().stored()).toEqual([])
    })

    it('prunes executions that are not known, of one tenant or of all, and nothing else', async () => {
      const old = newExecutionId(Date.UTC(2026, 0, 5))
      const kept = newExecutionId(Date.UTC(2026, 0, 5))
      const other = newExecutionId(Date.UTC(2026, 0, 6))
      const later = newExecutionId(Date.UTC(2026, 0, 7))
      for (const executionId of [old, kept, later])
        for (const name of ['stdout', 'stderr']) await putBlob(seen(), 'x', { executionId, name })
      await putBlob(seen(), 'x', { executionId: other, tenantId: 'other' })
      const ids = async () => [...new Set((await seen().stored()).map((path) => path.split('/')[2]))]
      const ended = async (all: string[]) => new Set(all.filter((id) => id === old))
      expect(await seen().blobs.pruneTenant('acme', '20260105', ended)).toBe(0)
      expect(await seen().blobs.pruneTenant('nobody', '20260107', ended)).toBe(0)
      expect(await seen().blobs.pruneTenant('acme', '20260107', ended)).toBe(1)
      expect((await ids()).toSorted()).toEqual([kept, other, later].toSorted())
      expect(await seen().blobs.prune('20260107', async () => new Set([kept]))).toBe(1)
      expect((await ids()).toSorted()).toEqual([kept, later].toSorted())
      expect(await seen().blobs.prune('20260108', async () => new Set())).toBe(2)
      expect(await seen().stored()).toEqual([])
    })
  })
}
