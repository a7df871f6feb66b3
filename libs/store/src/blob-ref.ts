/**
 * References of blobs: `<tenant>~<hash>/<YYYYMMDD>/<execution id>/<attempt>-<name>-<hash>-<random>[-sealed]`. Every part is made
 * here from a closed alphabet and checked whole before use, so a reference can name nothing outside of the root:
 * no part can be `..`, be empty, or hold a separator. Hashes keep names apart that sanitising or a file system without
 * case would fold together; the random part keeps a fenced worker from overwriting its successor's output.
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
  /^([A-Za-z0-9_.@-]{1,64}~[0-9a-f]{16})\/(\d{8})\/(exe_[0-9a-f]{32})\/(\d{1,9}-[A-Za-z0-9_.-]{1,64}-[0-9a-f]{16}-[0-9a-f]{16}(?:-sealed)?)$/

export interface BlobPlace {
  tenant: string
  /** UTC day on which the execution was made, `YYYYMMDD`. */
  day: string
  execution: string
  file: string
}

/** Ends the names of encrypted blobs: nothing that a program writes can make its blob look like one. */
const SEALED = '-sealed'

export const isSealed = (place: BlobPlace): boolean => place.file.endsWith(SEALED)

/** A fresh place for a blob of `key`; throws `invalid_request` when its execution id is none. */
export function newPlace(key: BlobKey): BlobPlace {
  const id = executionIdSchema.safeParse(key.executionId)
  if (!id.success || !Number.isSafeInteger(key.attempt) || key.attempt < 1 || key.attempt > 999_999_999)
    throw new CofferdamError('invalid_request', 'A blob belongs to an execution id and an attempt from 1 on.')
  return {
    tenant: tenantFolder(key.tenantId),
    day: dayOf(id.data),
    execution: id.data,
    file: `${key.attempt}-${sanitised(key.name)}-${hash(key.name)}-${randomBytes(8).toString('hex')}${key.encrypt ? SEALED : ''}`,
  }
}

/** The place that a reference names; null for anything that `newPlace` and `refOf` did not make. */
export function placeOf(ref: string): BlobPlace | null {
  const [, tenant, day, execution, file] = REF.exec(ref) ?? []
  if (tenant === undefined || day === undefined || execution === undefined || file === undefined) return null
  return { tenant, day, execution, file }
}

export const refOf = (place: BlobPlace): string =>
  [place.tenant, place.day, place.execution, place.file].join('/')

/** UTC day of an execution id as `YYYYMMDD`. */
export const dayOf = (id: ExecutionId): string =>
  new Date(idTimeMs(id)).toISOString().slice(0, 10).replaceAll('-', '')

/** For people who look into the directory; never the only thing that tells two names apart. */
const sanitised = (name: string): string => name.replaceAll(/[^A-Za-z0-9_.-]/g, '_').slice(0, 64) || '_'
const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)

/** Name of a tenant's folder: no other id gives the same. */
export function tenantFolder(tenantId: string): string {
  return `${sanitised(tenantId)}~${hash(tenantId)}`
}
