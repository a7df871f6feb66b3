/**
 * How a request is stored. Strings above `QUEUE_BOUNDS.inlineBytes` become `{"$blob": "<sha256>"}` and are
 * stored once per content, because 64 KiB inline costs eight times the CPU per enqueue (measured). No object
 * of a request can have a key `$blob` (strict schemas; environment names start with a letter or `_`).
 */
import { createHash } from 'node:crypto'
import {
  canHaveRunSession,
  isCofferdamError,
  withRunSession,
  type ExecutionRequest,
} from '@cofferdam/contract'
import type { Redis } from 'ioredis'
import { QUEUE_BOUNDS } from './bounds.ts'
import { keysOf } from './cell.ts'
import { RECORD_VERSION, withoutVersion, withVersion } from './record-version.ts'

/** The stored form of a request and the blobs it refers to, by SHA-256. */
export interface StoredRequest {
  json: string
  blobs: Map<string, string>
}

/** Splits a request into a small JSON text and its large parts. */
export function dehydrate(asked: ExecutionRequest, version = RECORD_VERSION): StoredRequest {
  const request = withVersion(asked, version)
  const whole = JSON.stringify(request)
  // If the whole is small, so is every part: a string is never longer than its JSON.
  if (!isLarge(whole, QUEUE_BOUNDS.inlineBytes)) return { json: whole, blobs: new Map() }
  const blobs = new Map<string, string>()
  const keep = (content: string): { $blob: string } => {
    const sha = createHash('sha256').update(content).digest('hex')
    blobs.set(sha, content)
    return { $blob: sha }
  }
  const json = JSON.stringify(request, (_key, value: unknown) =>
    typeof value === 'string' && isLarge(value, QUEUE_BOUNDS.inlineBytes) ? keep(value) : value,
  )
  if (!isLarge(json, QUEUE_BOUNDS.recordBytes)) return { json, blobs }
  return { json: JSON.stringify(keep(json)), blobs }
}

const isLarge = (value: string, bytes: number): boolean =>
  value.length > bytes || (value.length * 3 > bytes && Buffer.byteLength(value) > bytes)

/**
 * Restores a stored request. Null when a blob is gone. Extends the expiry of the blobs that it reads. Throws
 * `record_too_new` for a record of a later build.
 */
export async function hydrate(redis: Redis, json: string): Promise<ExecutionRequest | null> {
  let stored: unknown = JSON.parse(json)
  if (!json.includes('"$blob"')) return withoutVersion(stored as ExecutionRequest)
  // At most twice: the whole request may be one blob, whose text refers to others.
  for (let depth = 0; depth < 2; depth += 1) {
    const shas = [...new Set(references(stored))]
    if (shas.length === 0) break
    const contents = await Promise.all(
      shas.map((sha) => redis.getex(keysOf(redis).blob + sha, 'PX', QUEUE_BOUNDS.blobTtlMs)),
    )
    if (contents.includes(null)) return null
    const bySha = new Map(shas.map((sha, index) => [sha, contents[index] ?? '']))
    const whole = referenceOf(stored)
    stored = whole === null ? replaceReferences(stored, bySha) : JSON.parse(bySha.get(whole) ?? 'null')
  }
  return withoutVersion(stored as ExecutionRequest)
}

/**
 * Like `hydrate`, and null also for a record of a later build. Its execution can be cancelled all the same.
 */
export const readable = (redis: Redis, json: string): Promise<ExecutionRequest | null> =>
  hydrate(redis, json).catch((error: unknown) => {
    if (isCofferdamError(error) && error.code === 'record_too_new') return null
    throw error
  })

function referenceOf(value: unknown): string | null {
  return typeof value === 'object' && value !== null && '$blob' in value && typeof value.$blob === 'string'
    ? value.$blob
    : null
}

function references(value: unknown): string[] {
  const sha = referenceOf(value)
  if (sha !== null) return [sha]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(references) : []
}

function replaceReferences(value: unknown, bySha: Map<string, string>): unknown {
  const sha = referenceOf(value)
  if (sha !== null) return bySha.get(sha)
  if (Array.isArray(value)) return value.map((item) => replaceReferences(item, bySha))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).map(([k, v]) => [k, replaceReferences(v, bySha)]))
}

/**
 * The request as it is stored: with its reuse scope, and in the session of its run if the tenant's executions
 * share one.
 */
export async function withTenantSession(redis: Redis, asked: ExecutionRequest): Promise<ExecutionRequest> {
  const shares =
    canHaveRunSession(asked) && (await redis.sismember(keysOf(redis).runSessions, asked.tenant_id)) === 1
  return withReuse(shares ? withRunSession(asked) : asked)
}

/** The request with its default reuse scope written out, as records and body hashes have it. */
export const withReuse = (request: ExecutionRequest): ExecutionRequest => ({
  ...request,
  reuse: request.reuse ?? 'job',
})
