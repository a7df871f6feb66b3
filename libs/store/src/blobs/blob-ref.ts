/**
 * References of blobs: `<tenant>~<hash>/<YYYYMMDD>/<execution id>/<attempt>-<name>-<hash>-<random>`, then
 * `-sealed` if it is encrypted, or `-hashed#<digest>` if its bytes have hashes (hashed-blobs.ts).
 * What is before `#` is where the blob lies, below the directory or the prefix of the bucket.
 *
 * A reference cannot name anything outside of the root, because every part has a closed alphabet and is
 * validated before use. The hashes distinguish names that sanitising or a case-insensitive file system would
 * merge. The random part keeps a fenced worker from overwriting the output of its successor.
 */
import { createHash, randomBytes } from 'node:crypto'
import {
  CofferdamError,
  executionIdSchema,
  idTimeMs,
  type BlobKey,
  type ExecutionId,
} from '@cofferdam/contract'

const REF =
  /^([A-Za-z0-9_.@-]{1,64}~[0-9a-f]{16})\/(\d{8})\/(exe_[0-9a-f]{32})\/(\d{1,9}-[A-Za-z0-9_.-]{1,64}-[0-9a-f]{16}-[0-9a-f]{16}(?:-sealed|-hashed(?=#))?)(?:(?<=-hashed)#([0-9a-f]{64}))?$/

export interface BlobPath {
  tenant: string
  /** UTC day on which the execution was created, `YYYYMMDD`. */
  day: string
  execution: string
  file: string
}

/** How the bytes of a blob are stored: as they are, encrypted, or with hashes behind them. */
export type BlobForm = 'plain' | 'sealed' | 'hashed'

/** Suffixes of file names. A program cannot influence them. */
const SUFFIXES = { plain: '', sealed: '-sealed', hashed: '-hashed' } as const satisfies Record<
  BlobForm,
  string
>

/** A new path for a blob of `key`. Throws `invalid_request` for an invalid execution ID. */
export function newBlobPath(key: BlobKey, form: BlobForm): BlobPath {
  const id = executionIdSchema.safeParse(key.executionId)
  if (!id.success || !Number.isSafeInteger(key.attempt) || key.attempt < 1 || key.attempt > 999_999_999)
    throw new CofferdamError('invalid_request', 'A blob belongs to an execution id and an attempt from 1 on.')
  return {
    tenant: tenantFolder(key.tenantId),
    day: dayOf(id.data),
    execution: id.data,
    file:
      `${key.attempt}-${sanitised(key.name)}-${hash(key.name)}` +
      `-${randomBytes(8).toString('hex')}${SUFFIXES[form]}`,
  }
}

export interface FoundBlob {
  path: BlobPath
  form: BlobForm
  /** For the form `hashed`: the digest of the blob's length and hashes. Empty for other forms. */
  digest: string
}

/** What a reference names. Null for anything that `newBlobPath` and `refOf` did not make. */
export function findBlob(ref: string): FoundBlob | null {
  const [, tenant, day, execution, file, digest = ''] = REF.exec(ref) ?? []
  if (tenant === undefined || day === undefined || execution === undefined || file === undefined) return null
  const form = file.endsWith(SUFFIXES.sealed) ? 'sealed' : digest === '' ? 'plain' : 'hashed'
  return { path: { tenant, day, execution, file }, form, digest }
}

/** Where a blob lies, and its reference unless its form is `hashed`. */
export const refOf = (blob: BlobPath): string => [blob.tenant, blob.day, blob.execution, blob.file].join('/')

export const hashedRefOf = (blob: BlobPath, digest: string): string => `${refOf(blob)}#${digest}`

export const dayOf = (id: ExecutionId): string =>
  new Date(idTimeMs(id)).toISOString().slice(0, 10).replaceAll('-', '')

/** For people who look into the directory. The hash distinguishes names. */
const sanitised = (name: string): string => name.replaceAll(/[^A-Za-z0-9_.-]/g, '_').slice(0, 64) || '_'
const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)

export function tenantFolder(tenantId: string): string {
  return `${sanitised(tenantId)}~${hash(tenantId)}`
}
