/** The key of the account, as it stands in its file now: it may be rotated while a worker runs. */
import { readFile } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

/** Throws `backend_unavailable`, which never quotes what stands there. */
export async function readKey(file: string | undefined): Promise<string> {
  if (file === undefined)
    throw new CofferdamError('backend_unavailable', 'E2B: api_key_file is not set in backends.e2b.')
  const text = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CofferdamError('backend_unavailable', `E2B: the key file ${file} cannot be read.`, {
      cause: error,
    })
  })
  const key = text.trim()
  // Not quoted: whatever stands there is meant to be a secret.
  if (!/^[\x21-\x7e]{8,512}$/.test(key))
    throw new CofferdamError('backend_unavailable', `E2B: ${file} holds no API key.`)
  return key
}
