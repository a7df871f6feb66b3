/** Files in `/mnt/data` of an interpreter session. */
import { multipart } from '@cofferdam/backend-remote'
import { versionOf, type Executions } from './dialects.ts'
import type { PoolApi } from './pool-api.ts'
import type { PoolCall } from './pool-call.ts'

/** The largest answer (in-session.py ends an agent that says more). */
export const FILE_MAX = 65 * 1024 * 1024 + 65_536

export interface SessionFiles {
  upload(
    file: string,
    bytes: Uint8Array,
    more: Pick<PoolCall, 'allocates' | 'patienceMs' | 'signal'>,
  ): Promise<void>
  download(file: string, more: Pick<PoolCall, 'patienceMs' | 'signal'>): Promise<Buffer>
}

/** Creates the calls. Names are letters, digits, hyphens and dots. */
export function createSessionFiles(api: PoolApi, executions: Executions, identifier: string): SessionFiles {
  return {
    async upload(file, bytes, more) {
      const { body, type } = multipart([{ path: file, bytes }])
      await executions.spelled((dialect) =>
        api.call({
          ...more,
          method: 'POST',
          path: dialect === 'old' ? '/files/upload' : '/files',
          query: { 'api-version': versionOf(dialect) },
          identifier,
          bytes: body,
          type,
          isRepeatable: true,
        }),
      )
    },
    async download(file, more) {
      const answer = await executions.spelled((dialect) =>
        api.call({
          ...more,
          method: 'GET',
          path: dialect === 'old' ? `/files/content/${file}` : `/files/${file}/content`,
          query: { 'api-version': versionOf(dialect) },
          identifier,
          isRepeatable: true,
          maxBytes: FILE_MAX,
        }),
      )
      return answer.body
    },
  }
}
