/**
 * Cursors of lists: where a page ended, sealed (AES-256-GCM), so that a cursor shows nothing of the row it
 * stands behind and works only for the list and the tenant that it was made for. The key is the fleet's, in
 * Postgres.
 *
 *   cursor = base64url(nonce 12 B, tag 16 B, sealed position)      associated data: list, tenant
 *
 * The nonce is derived from list, tenant and position (as in AES-GCM-SIV), so the same place has the same
 * cursor and no nonce seals two texts.
 */
import { createCipheriv, createDecipheriv, createHmac } from 'node:crypto'
import { CofferdamError } from '@cofferdam/contract'

const NONCE_BYTES = 12
const TAG_BYTES = 16

/** What a cursor belongs to. */
export interface CursorOf {
  /** Name of the list, the same for all its pages. */
  list: string
  /** Whose rows it shows; null for everybody's. */
  tenantId: string | null
}

export interface Cursors {
  /** The cursor behind `position`; null for null, the end of the list. Throws `store_unavailable`. */
  seal<T extends string | null>(of: CursorOf, position: T): Promise<T>
  /**
   * The position that `cursor` stands for; undefined for undefined. Throws `invalid_request` for a cursor of
   * something else.
   */
  open(of: CursorOf, cursor: string | undefined): Promise<string | undefined>
}

/** Makes them; `readKey` gives the 32 bytes and is asked until it once answered. */
export function createCursors(readKey: () => Promise<Uint8Array>): Cursors {
  let known: Promise<Keys> | null = null
  const keys = (): Promise<Keys> => {
    known ??= readKey().then(derived)
    known.catch(() => (known = null))
    return known
  }

  return {
    async seal(of, position) {
      if (position === null) return position
      const { sealing, naming } = await keys()
      const about = aboutOf(of)
      const nonce = createHmac('sha256', naming)
        .update(about)
        .update(position)
        .digest()
        .subarray(0, NONCE_BYTES)
      const cipher = createCipheriv('aes-256-gcm', sealing, nonce).setAAD(about)
      const sealed = Buffer.concat([cipher.update(position, 'utf8'), cipher.final()])
      return Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url') as typeof position
    },
    async open(of, cursor) {
      if (cursor === undefined) return undefined
      const { sealing } = await keys()
      const bytes = Buffer.from(cursor, 'base64url')
      const [nonce, tag] = [
        bytes.subarray(0, NONCE_BYTES),
        bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES),
      ]
      if (tag.length !== TAG_BYTES) throw foreign()
      try {
        const decipher = createDecipheriv('aes-256-gcm', sealing, nonce, { authTagLength: TAG_BYTES })
        decipher.setAAD(aboutOf(of)).setAuthTag(tag)
        const sealed = bytes.subarray(NONCE_BYTES + TAG_BYTES)
        return Buffer.concat([decipher.update(sealed), decipher.final()]).toString('utf8')
      } catch {
        throw foreign()
      }
    },
  }
}

interface Keys {
  sealing: Buffer
  naming: Buffer
}

const derived = (key: Uint8Array): Keys => ({
  sealing: createHmac('sha256', key).update('seal').digest(),
  naming: createHmac('sha256', key).update('name').digest(),
})

/** Names hold no NUL, and everybody has no name: two different ones never look alike. */
const aboutOf = ({ list, tenantId }: CursorOf): Buffer =>
  Buffer.from(`${list}\0${tenantId === null ? 'everybody' : `tenant ${tenantId}`}\0`)

const foreign = (): CofferdamError =>
  new CofferdamError(
    'invalid_request',
    'cursor: expected the cursor of an earlier page of this list, for the same tenant.',
  )
