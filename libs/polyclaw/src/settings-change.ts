/** Changes of the settings. The whole body is validated before any part is applied. */
import { CofferdamError } from '@cofferdam/contract'
import { z } from 'zod'
import type { SandboxSettings } from './settings-table.ts'
import { DEFAULT_WHITELIST, refuseBlacklisted, whitelistEntry } from './whitelist.ts'

const entrySchema = z.string().min(1).max(512)
const MAX_ENTRIES = 256

/** Empty, or https because tokens are sent there. Plain http only to this machine, for the emulator. */
const endpointSchema = z
  .string()
  .max(2048)
  .transform((text) => text.trim().replace(/\/+$/, ''))
  .refine((text) => {
    if (text === '') return true
    const url = URL.parse(text)
    if (url === null || url.username !== '' || url.search !== '' || url.hash !== '') return false
    return (
      url.protocol === 'https:' ||
      (url.protocol === 'http:' && ['127.0.0.1', 'localhost', '[::1]'].includes(url.hostname))
    )
  }, 'expected an https URL without user, query or fragment, or an empty text')

export const ENDPOINT_EXAMPLE = 'https://eastus.dynamicsessions.io/subscriptions/0000/sessionPools/pool'

/** The body of POST /api/sandbox/config. Absent fields keep their value. */
export const sandboxChangeSchema = z.strictObject({
  enabled: z.boolean().optional().meta({ description: 'Whether agents may use the sandbox.' }),
  session_pool_endpoint: endpointSchema.optional().meta({
    description: 'The pool’s endpoint, https. Empty: no pool.',
    example: ENDPOINT_EXAMPLE,
  }),
  sync_data: z.boolean().optional().meta({
    description: 'Whether files of the data directory are copied into sandboxes and merged back.',
  }),
  whitelist: z
    .array(entrySchema)
    .max(MAX_ENTRIES)
    .optional()
    .meta({ description: 'Paths of the data directory that are synced, at most 256.', example: ['memory'] }),
  add_whitelist: entrySchema.optional().meta({ description: 'Adds a path.', example: 'memory' }),
  remove_whitelist: entrySchema.optional().meta({ description: 'Removes a path.', example: 'memory' }),
  reset_whitelist: z.boolean().optional().meta({ description: 'True sets the default whitelist.' }),
})
export type SandboxChange = z.output<typeof sandboxChangeSchema>

/** The settings after a change. Fields apply in the order of the schema. Throws `invalid_request`. */
export function settingsAfter(now: SandboxSettings, change: SandboxChange): SandboxSettings {
  const whitelist = new Set((change.whitelist ?? now.whitelist).map(whitelistEntry))
  for (const entry of change.whitelist ?? []) refuseBlacklisted(entry)
  if (change.add_whitelist !== undefined) {
    refuseBlacklisted(change.add_whitelist)
    whitelist.add(whitelistEntry(change.add_whitelist))
  }
  if (change.remove_whitelist !== undefined) whitelist.delete(whitelistEntry(change.remove_whitelist))
  if (whitelist.size > MAX_ENTRIES)
    throw new CofferdamError('invalid_request', `A whitelist may hold ${MAX_ENTRIES} entries.`)
  const after = {
    ...now,
    enabled: change.enabled ?? now.enabled,
    sync_data: change.sync_data ?? now.sync_data,
    session_pool_endpoint: change.session_pool_endpoint ?? now.session_pool_endpoint,
    whitelist: change.reset_whitelist === true ? [...DEFAULT_WHITELIST] : [...whitelist],
  }
  // Refuse an enabled sandbox without a pool, because no execution could use it.
  if (after.enabled && after.session_pool_endpoint === '')
    throw new CofferdamError(
      'invalid_request',
      'enabled needs a session_pool_endpoint: set one, or provision a pool.',
    )
  return after
}
