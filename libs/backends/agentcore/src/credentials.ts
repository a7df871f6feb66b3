/** Keys from an AWS credentials file, for workers that must not look for keys anywhere else. */
import { readFile } from 'node:fs/promises'
import { CofferdamError } from '@cofferdam/contract'

/**
 * The SDK refreshes keys in their last 300 s (EXPIRATION_MS of @smithy/core). So it reads the file again
 * every five minutes, and keys can be rotated without a restart.
 */
const EXPIRES_AFTER_MS = 600_000

export interface Credentials {
  accessKeyId: string
  secretAccessKey: string
  sessionToken?: string
  expiration: Date
}

/** A provider for the SDK. Throws `backend_unavailable`, which names the file but not its content. */
export function credentialsFrom(file: string, profile: string): () => Promise<Credentials> {
  return async () => {
    const text = await readFile(file, 'utf8').catch((error: unknown) => {
      throw new CofferdamError(
        'backend_unavailable',
        `AgentCore: the credentials file ${file} cannot be read.`,
        {
          cause: error,
        },
      )
    })
    const fields = sectionOf(text, profile)
    const [accessKeyId, secretAccessKey] = [
      fields.get('aws_access_key_id'),
      fields.get('aws_secret_access_key'),
    ]
    const sessionToken = fields.get('aws_session_token')
    if (accessKeyId === undefined || secretAccessKey === undefined)
      throw new CofferdamError(
        'backend_unavailable',
        `AgentCore: ${file} holds no keys in its section [${profile}].`,
      )
    return {
      accessKeyId,
      secretAccessKey,
      ...(sessionToken === undefined ? {} : { sessionToken }),
      expiration: new Date(Date.now() + EXPIRES_AFTER_MS),
    }
  }
}

function sectionOf(text: string, profile: string): Map<string, string> {
  const fields = new Map<string, string>()
  let isOurs = false
  for (const line of text.split('\n')) {
    const section = /^\s*\[\s*([^\]]+?)\s*\]/.exec(line)?.[1]
    if (section !== undefined) isOurs = section === profile
    const field = /^\s*([a-z_]+)\s*=\s*(\S+)\s*$/.exec(line)
    if (isOurs && field?.[1] !== undefined && field[2] !== undefined) fields.set(field[1], field[2])
  }
  return fields
}
