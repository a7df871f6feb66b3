/** The account's key. It is read from its file for each call, because it may be rotated. */
import { readFile } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

/** Throws `backend_unavailable`, which never quotes the file's content. */
export async function readKey(file: string | undefined): Promise<string> {
  if (file === undefined)
    throw new CofferdamError('backend_unavailable', 'E2B: api_key_file is not set in backends.e2b.')
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `E2B: the key file ${file} cannot be read.`, {
      cause: error,
    })
  })
  const key = text.trim()
  // Never quote the content: it is probably a secret.
  if (!/^[\x21-\x7e]{8,512}$/.test(key))
    throw new CofferdamError('backend_unavailable', `E2B: ${file} holds no API key.`)
  return key
}
