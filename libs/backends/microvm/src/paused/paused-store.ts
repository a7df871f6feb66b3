/**
 * Paused sessions on disk: a folder each, which one rename makes and one rename ends. So after a crash a
 * session is paused or it is not, and never in between.
 *
 *   <top>/<digest of the name>/{session.json, machine}     paused
 *   <top>/new-…                                            not committed yet, or given up
 *   <top>/old-…                                            ended; about to be removed
 */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import { link, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable, Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { CofferdamError, isCofferdamError, type SessionName } from '@cofferdam/contract'
import type { Sealing } from '@cofferdam/sandbox/backend'
import { nameOf, pausedRecordSchema, type PausedRecord } from './paused-record.ts'

/** A draft that is older than this is abandoned, because no pause takes so long. */
const ABANDONED_MS = 3_600_000
const [NEW, OLD] = ['new-', 'old-']

/** The saved machine of a pause that is not committed. */
export interface Draft {
  readonly fileId: string
  readonly bytes: number
  /** Removes it. What was committed from it stays. */
  drop(): Promise<void>
}

export interface PausedStore {
  /** The record of a paused session, or null. */
  find(name: SessionName): Promise<PausedRecord | null>
  /** All paused sessions. */
  list(): Promise<PausedRecord[]>
  /** Keeps what `save` writes, at most `maxBytes`. Throws `backend_unavailable` if there is no space. */
  draft(tenantId: string, maxBytes: number, save: (to: Writable) => Promise<void>): Promise<Draft>
  /** Makes the session paused, in place of one of the same name. */
  commit(record: PausedRecord, draft: Draft): Promise<void>
  /** The saved machine. */
  read(record: PausedRecord): Readable
  /** Ends it. True if it was there. */
  remove(name: SessionName): Promise<boolean>
  /** Ends what has expired, and removes what a dead worker left. */
  removeOld(): Promise<void>
}

/** Without `sealing`, saved machines are stored unencrypted. */
export function createPausedStore(folder: () => Promise<string>, sealing: Sealing | null): PausedStore {
  const unique = (): string => randomBytes(16).toString('hex')
  const folderOf = async (name: SessionName): Promise<string> => join(await folder(), digestOf(name))
  const machineOf = (top: string): string => join(top, 'machine')

  async function read(path: string): Promise<PausedRecord | null> {
    const text = await readFile(join(path, 'session.json'), 'utf8').catch(absent)
    if (text === null) return null
    const { data, error } = pausedRecordSchema.safeParse(parsedJson(text))
    if (data !== undefined) return data
    throw new CofferdamError(
      'conflict',
      'The session was paused by another release, or its record is broken.',
      {
        cause: error,
      },
    )
  }

  async function remove(path: string): Promise<boolean> {
    const old = join(await folder(), `${OLD}${unique()}`)
    try {
      await rename(path, old)
    } catch (error) {
      return absent(error) !== null
    }
    await syncFolder(await folder())
    await rm(old, { recursive: true, force: true })
    return true
  }

  async function list(): Promise<PausedRecord[]> {
    const names = (await readdir(await folder())).filter((name) => /^[0-9a-f]{32}$/.test(name))
    const top = await folder()
    // Skip an unreadable record: nobody can resume it, and it must not make the other records unavailable.
    const found = await Promise.all(names.map((name) => read(join(top, name)).catch(() => null)))
    return found.filter((record) => record !== null)
  }

  return {
    find: async (name) => await read(await folderOf(name)),
    list,
    remove: async (name) => await remove(await folderOf(name)),

    async draft(tenantId, maxBytes, save) {
      const fileId = unique()
      const path = join(await folder(), `${NEW}${fileId}`)
      const drop = async (): Promise<void> => await rm(path, { recursive: true, force: true })
      try {
        await mkdir(path, { mode: 0o700 })
        const counted = bounded(maxBytes)
        const file = createWriteStream(machineOf(path), { flags: 'wx', mode: 0o600, flush: true })
        const through = sealing === null ? [] : [sealing.seal(placeOf(tenantId, fileId))]
        const written = pipeline([counted, ...through, file])
        // Wait for both even if one fails: the machine may run again only when nothing reads its memory.
        throwFirst(await Promise.allSettled([written, save(counted)]))
      } catch (error) {
        await drop()
        throw withoutSpace(error)
      }
      return { fileId, bytes: (await stat(machineOf(path))).size, drop }
    },

    async commit(record, { fileId }) {
      const top = await folder()
      const fresh = join(top, `${NEW}${unique()}`)
      try {
        await mkdir(fresh, { mode: 0o700 })
        await link(machineOf(join(top, `${NEW}${fileId}`)), machineOf(fresh))
        const text = JSON.stringify(record)
        await writeFile(join(fresh, 'session.json'), text, { mode: 0o600, flush: true })
        await syncFolder(fresh)
        await remove(await folderOf(nameOf(record)))
        await rename(fresh, await folderOf(nameOf(record)))
        await syncFolder(top)
      } catch (error) {
        await rm(fresh, { recursive: true, force: true })
        throw withoutSpace(error)
      }
    },

    read(record) {
      const opened = async function* (): AsyncGenerator<Buffer> {
        yield* createReadStream(machineOf(await folderOf(nameOf(record))))
      }
      const stored = Readable.from(opened())
      if (!record.is_sealed) return stored
      if (sealing === null)
        throw new CofferdamError('conflict', 'The session was paused with a key that this worker lacks.')
      const plain = sealing.open(placeOf(record.tenant_id, record.file_id))
      pipeline(stored, plain).catch(() => {})
      return plain
    },

    async removeOld() {
      const top = await folder()
      for (const name of await readdir(top)) {
        const isNew = name.startsWith(NEW)
        if (!isNew && !name.startsWith(OLD)) continue
        const found = await stat(join(top, name)).catch(() => null)
        const isLeft = found !== null && Date.now() - found.mtimeMs > ABANDONED_MS
        if (!isNew || isLeft) await rm(join(top, name), { recursive: true, force: true })
      }
      for (const record of await list())
        if (record.expires_ms <= Date.now()) await remove(await folderOf(nameOf(record)))
    },
  }
}

const placeOf = (tenant: string, fileId: string): Parameters<Sealing['seal']>[0] => ({
  tenant,
  location: `paused/${fileId}`,
})

const digestOf = ({ tenantId, backend, key }: SessionName): string =>
  createHash('sha256')
    .update(JSON.stringify([tenantId, backend, key]))
    .digest('hex')
    .slice(0, 32)

/** Refuses more bytes than were granted. */
function bounded(maxBytes: number): Transform {
  let left = maxBytes
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      left -= chunk.length
      if (left >= 0) return done(null, chunk)
      done(
        new CofferdamError(
          'backend_unavailable',
          'The paused sessions of this host group have no room for one more. End or resume others, or raise ' +
            'paused_max_mib.',
        ),
      )
    },
  })
}

function withoutSpace(error: unknown): unknown {
  const { code = '' } = error as NodeJS.ErrnoException
  if (isCofferdamError(error) || !['ENOSPC', 'EDQUOT', 'EFBIG'].includes(code)) return error
  return new CofferdamError('backend_unavailable', 'The disk of paused sessions is full.', { cause: error })
}

/** Throws the original failure, if any, and not the premature close that it caused in the other stream. */
function throwFirst(ends: readonly PromiseSettledResult<void>[]): void {
  const errors = ends.flatMap((end) =>
    end.status === 'rejected' ? [end.reason as NodeJS.ErrnoException] : [],
  )
  const [first] = errors.toSorted((a, b) => Number(isEcho(a)) - Number(isEcho(b)))
  if (first !== undefined) throw first
}

const isEcho = ({ code }: NodeJS.ErrnoException): boolean => code === 'ERR_STREAM_PREMATURE_CLOSE'

function absent(error: unknown): null {
  if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
  throw error
}

function parsedJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** Syncs a folder, so that a rename in it survives a power failure. */
async function syncFolder(path: string): Promise<void> {
  await using handle = await open(path, 'r')
  await handle.sync()
}
