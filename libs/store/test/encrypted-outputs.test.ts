import { randomBytes } from 'node:crypto'
import {
  copyFileSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { newExecutionId, type AttemptRecord, type BlobStore } from '@cofferdam/contract'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createStore, type OutputKey, type Store } from '../src/index.ts'
import { CHUNK_BYTES, HEADER_BYTES, STORED_CHUNK_BYTES } from '../src/sealed-format.ts'
import { PATIENT_TIMEOUTS } from '../src/testing.ts'
import { openTestStore, type TestStore } from './open-test-store.ts'
import { sampleAttempt } from './sample-attempt.ts'

const MARKER = 'patient 4711 has a marker'
const OLD: OutputKey = { id: 'old', key: randomBytes(32) }
const NEW: OutputKey = { id: 'new', key: randomBytes(32) }

let t: TestStore
let sealed: Store
let rotated: Store
let without: Store
beforeAll(async () => {
  t = await openTestStore()
  const open = (outputKeys: OutputKey[]) =>
    createStore({ databaseUrl: t.url, blobDir: t.blobDir, outputKeys, timeouts: PATIENT_TIMEOUTS })
  sealed = await open([OLD])
  rotated = await open([NEW, OLD])
  without = await open([NEW])
})
afterAll(async () => {
  for (const store of [sealed, rotated, without]) await store?.[Symbol.asyncDispose]()
  await t?.close()
})

/** Every file of the blob directory, by relative path. */
const files = (): string[] =>
  readdirSync(t.blobDir, { recursive: true, encoding: 'utf8' }).filter((name) =>
    statSync(join(t.blobDir, name)).isFile(),
  )
const onDisk = (): string =>
  files()
    .map((name) => readFileSync(join(t.blobDir, name), 'latin1'))
    .join('\n')

/** Every result and every audit row as text. */
async function inPostgres(): Promise<string> {
  const { rows } = await t.owner(
    `select row_to_json(r)::text as row from results r
     union all select row_to_json(i)::text from sandbox_invocations i`,
  )
  return rows.map(({ row }) => String(row)).join('\n')
}

async function put(blobs: BlobStore, bytes: Uint8Array, name = 'stdout'): Promise<string> {
  const key = { tenantId: 'acme', executionId: newExecutionId(), attempt: 1, name, encrypt: true }
  const sink = await blobs.create(key)
  // Pieces that do not align with chunks.
  for (let at = 0; at < bytes.length; at += 50_001) await sink.write(bytes.subarray(at, at + 50_001))
  return sink.commit()
}

const secretive = (sample: Parameters<typeof sampleAttempt>[0] = {}): AttemptRecord => {
  const record = sampleAttempt({ stdout: `${MARKER}\n`, ...sample })
  const test = { name: `test ${MARKER}`, file: null, line: null, message: MARKER }
  return {
    ...record,
    encrypt: true,
    audit: { ...record.audit, failure_reason: MARKER },
    result: {
      ...record.result,
      stderr: MARKER,
      value: { name: MARKER },
      error_message: MARKER,
      tests: {
        framework: 'pytest',
        command: 'pytest',
        total: 1,
        passed: 0,
        failed: 1,
        errored: 0,
        skipped: 0,
        duration_ms: 1,
        failures: [test],
        failures_omitted: 0,
        complete: true,
      },
    },
  }
}

describe('an encrypted blob', () => {
  it.each([0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES, 3 * CHUNK_BYTES + 7])(
    'of %d bytes can be read whole and in parts, across chunk borders',
    async (size) => {
      const bytes = randomBytes(size)
      const ref = await put(sealed.blobs, bytes)
      const whole = await sealed.blobs.read(ref)
      expect(whole?.total).toBe(size)
      expect(Buffer.compare(Buffer.from(whole!.bytes), bytes)).toBe(0)
      const edges = [
        0,
        1,
        CHUNK_BYTES - 1,
        CHUNK_BYTES,
        CHUNK_BYTES + 1,
        2 * CHUNK_BYTES,
        size - 1,
        size,
        size + 9,
      ]
      for (const start of edges)
        for (const end of edges) {
          const part = await sealed.blobs.read(ref, { start, end })
          expect(part?.total).toBe(size)
          const expected = bytes.subarray(Math.max(0, start), Math.max(0, start, end))
          expect([start, end, Buffer.compare(Buffer.from(part!.bytes), expected)]).toEqual([start, end, 0])
        }
    },
  )

  it('shows nothing of its text on disk, and no two blobs are alike', async () => {
    const text = Buffer.from(`${MARKER}\n`.repeat(10_000))
    const [one, two] = [await put(sealed.blobs, text), await put(sealed.blobs, text)]
    expect(onDisk()).not.toContain('marker')
    expect(readFileSync(join(t.blobDir, one)).subarray(HEADER_BYTES, HEADER_BYTES + 64)).not.toEqual(
      readFileSync(join(t.blobDir, two)).subarray(HEADER_BYTES, HEADER_BYTES + 64),
    )
  })

  it('that was altered is refused, even if only its beginning is read', async () => {
    const bytes = randomBytes(3 * CHUNK_BYTES + 5)
    const changes: Record<string, (path: string) => void> = {
      'one bit of the text': (path) => flip(path, HEADER_BYTES + 10),
      'one bit of a tag': (path) => flip(path, HEADER_BYTES + CHUNK_BYTES + 3),
      'one bit of the header': (path) => flip(path, HEADER_BYTES - 1),
      'the end of a chunk': (path) => truncateSync(path, HEADER_BYTES + 2 * STORED_CHUNK_BYTES),
      'the middle of a chunk': (path) => truncateSync(path, HEADER_BYTES + STORED_CHUNK_BYTES + 100),
      'all but the header': (path) => truncateSync(path, HEADER_BYTES),
      everything: (path) => truncateSync(path, 0),
      'two chunks that changed places': (path) => {
        const whole = readFileSync(path)
        const [a, b] = [0, 1].map((i) =>
          Buffer.from(
            whole.subarray(
              HEADER_BYTES + i * STORED_CHUNK_BYTES,
              HEADER_BYTES + (i + 1) * STORED_CHUNK_BYTES,
            ),
          ),
        )
        whole.set(b!, HEADER_BYTES)
        whole.set(a!, HEADER_BYTES + STORED_CHUNK_BYTES)
        writeFileSync(path, whole)
      },
      'a chunk that was added': (path) =>
        writeFileSync(path, Buffer.concat([readFileSync(path), randomBytes(STORED_CHUNK_BYTES)])),
    }
    for (const [what, change] of Object.entries(changes)) {
      const ref = await put(sealed.blobs, bytes)
      change(join(t.blobDir, ref))
      await expect(sealed.blobs.read(ref), what).rejects.toMatchObject({ code: 'stored_data_damaged' })
    }
    const cut = await put(sealed.blobs, bytes)
    truncateSync(join(t.blobDir, cut), HEADER_BYTES + 2 * STORED_CHUNK_BYTES)
    await expect(sealed.blobs.read(cut, { start: 0, end: 1 })).rejects.toThrow(/not what was written/)
    const [mine, other] = [await put(sealed.blobs, bytes), await put(sealed.blobs, randomBytes(5))]
    copyFileSync(join(t.blobDir, mine), join(t.blobDir, other))
    await expect(sealed.blobs.read(other)).rejects.toThrow(/moved/)
  })

  it('is readable after its key was replaced, but not without its key', async () => {
    const ref = await put(sealed.blobs, Buffer.from(MARKER))
    expect(Buffer.from((await rotated.blobs.read(ref))!.bytes).toString()).toBe(MARKER)
    await expect(without.blobs.read(ref)).rejects.toThrow('key old, which is not configured')
    const newer = await put(rotated.blobs, Buffer.from(MARKER))
    expect(Buffer.from((await without.blobs.read(newer))!.bytes).toString()).toBe(MARKER)
  })

  it('is not created without a key, and a plain blob may contain anything', async () => {
    await expect(put(t.store.blobs, Buffer.from(MARKER))).rejects.toMatchObject({ code: 'internal' })
    const key = { tenantId: 'acme', executionId: newExecutionId(), attempt: 1, name: 'x', encrypt: false }
    const sink = await sealed.blobs.create(key)
    await sink.write(Buffer.from('CFDS\x01 is only text here'))
    const ref = await sink.commit()
    expect(Buffer.from((await sealed.blobs.read(ref))!.bytes).toString()).toBe('CFDS\x01 is only text here')
    renameSync(join(t.blobDir, ref), join(t.blobDir, `${ref}-sealed`))
    await expect(sealed.blobs.read(`${ref}-sealed`)).rejects.toMatchObject({ code: 'stored_data_damaged' })
  })
})

describe('an encrypted result', () => {
  it('reads back completely, and shows nothing of the program in Postgres or on disk', async () => {
    const long = secretive({ stdout: `${MARKER}\n`.repeat(4000) })
    const records = [secretive(), long, secretive({ ending: 'error' })]
    for (const record of records) {
      expect(await sealed.record(record)).toEqual({ inserted: true })
      const { execution_id } = record.result
      expect((await sealed.findExecution('acme', execution_id))?.result).toEqual(record.result)
      expect((await sealed.findAttempt(execution_id, 1))?.result).toEqual(record.result)
      expect((await rotated.findExecution(null, execution_id))?.result).toEqual(record.result)
      await expect(without.findExecution(null, execution_id)).rejects.toThrow('key old')
    }
    const { rows: items } = await sealed.listExecutions({ tenantId: 'acme', limit: 10 })
    expect(items.map((item) => item.result?.value)).toEqual([
      { name: MARKER },
      { name: MARKER },
      { name: MARKER },
    ])
    expect(await inPostgres()).not.toContain('marker')
    expect(onDisk()).not.toContain('marker')
  })

  it('that cannot be decrypted does not fail its page', async () => {
    const { rows: items } = await without.listExecutions({ tenantId: 'acme', limit: 10 })
    expect(items).toHaveLength(3)
    for (const { result } of items) expect(result).toMatchObject({ stdout: '', stdout_truncated: true })
  })

  it('that was changed in Postgres, or put into another row, is refused', async () => {
    const [one, two] = [secretive({ tenant: 'globex' }), secretive({ tenant: 'globex' })]
    for (const record of [one, two]) await sealed.record(record)
    const uuid = (record: AttemptRecord) => record.result.execution_id.slice(4)
    // Only an owner who disables the trigger can do this.
    await t.owner('alter table results disable trigger append_only')
    await t.owner(
      `update results set sealed = (select sealed from results where replace(execution_id::text, '-', '') = $1)
       where replace(execution_id::text, '-', '') = $2`,
      [uuid(one), uuid(two)],
    )
    await t.owner('alter table results enable always trigger append_only')
    await expect(sealed.findExecution('globex', two.result.execution_id)).rejects.toThrow(/moved/)
    expect((await sealed.findExecution('globex', one.result.execution_id))?.result).toEqual(one.result)
  })

  it('is stored without its text, never in clear, when there is no key', async () => {
    const record = secretive({ tenant: 'keyless', stdout: MARKER.repeat(4000) })
    await t.store.record(record)
    const found = await t.store.findExecution('keyless', record.result.execution_id)
    expect(found?.result).toMatchObject({ stdout: '', ending: 'ok' })
    expect(found?.result.stderr).toMatch(/^Not stored: it has to be encrypted/)
    expect(await inPostgres()).not.toContain('marker')
    expect(onDisk()).not.toContain('marker')
    expect([t.store.canEncrypt, sealed.canEncrypt]).toEqual([false, true])
  })

  it('is used only if the record requires it', async () => {
    const record = sampleAttempt({ tenant: 'open', stdout: 'in clear' })
    await sealed.record(record)
    const { rows } = await t.owner(
      `select result->>'stdout' as out, sealed from results where tenant_id = 'open'`,
    )
    expect(rows).toEqual([{ out: 'in clear', sealed: null }])
  })
})

it('the store refuses invalid keys', async () => {
  const open = (outputKeys: OutputKey[]) =>
    createStore({ databaseUrl: t.url, blobDir: t.blobDir, outputKeys })
  await expect(open([{ id: 'x', key: randomBytes(16) }])).rejects.toMatchObject({ code: 'config_invalid' })
  await expect(open([OLD, { ...NEW, id: 'old' }])).rejects.toMatchObject({ code: 'config_invalid' })
})

function flip(path: string, at: number): void {
  const bytes = readFileSync(path)
  bytes[at] = (bytes[at] ?? 0) ^ 1
  writeFileSync(path, bytes)
}
