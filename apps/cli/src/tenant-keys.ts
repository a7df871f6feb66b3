/** Verbs of `cofferdam tenant` for its credentials: API keys, and the secret that callbacks are signed with. */
import { apiKeyScopeSchema, parse } from '@cofferdam/contract'
import { z } from 'zod'
import { textFlag } from './parse-command-line.ts'
import { table } from './table.ts'
import type { TenantCall } from './tenant-call.ts'

const keysSchema = z.object({
  keys: z.array(
    z.object({
      id: z.string(),
      scope: apiKeyScopeSchema,
      template_id: z.string().nullable().default(null),
      label: z.string(),
      created_at: z.string(),
      revoked_at: z.string().nullable(),
    }),
  ),
})
const keyMadeSchema = z.object({ id: z.string(), key: z.string() })
const secretSchema = z.object({ secret: z.string(), rotated_at: z.string() })

/** `keys TENANT`: all of them, also the revoked ones; never the keys themselves. */
export async function keys({ api, path, terminal }: TenantCall): Promise<void> {
  const found = parse(keysSchema, await api.call('GET', `${path}/keys`), 'the answer').keys
  terminal.value(found)
  const rows = found.map((key) => [key.id, key.label, key.template_id, key.created_at, key.revoked_at])
  for (const text of table(['KEY ID', 'LABEL', 'TEMPLATE', 'CREATED', 'REVOKED'], rows)) terminal.line(text)
}

/** `new-key TENANT`: makes a key and shows it, this once. */
export async function newKey({ api, path, words, line, terminal }: TenantCall): Promise<void> {
  const template = textFlag(line, 'template')
  const answer = await api.call('POST', `${path}/keys`, {
    label: textFlag(line, 'label') ?? 'cli',
    ...(template === undefined ? {} : { template_id: template }),
  })
  const made = parse(keyMadeSchema, answer, 'the answer')
  terminal.value(made)
  // The key alone on stdout, so that `KEY=$(cofferdam tenant new-key acme)` works.
  terminal.line(made.key)
  terminal.note(`Key ${made.id} of tenant ${words[0]}; it is not shown again.`)
}

/** `revoke-key TENANT KEY-ID`. */
export async function revokeKey({ api, path, words: [, id], terminal }: TenantCall): Promise<void> {
  await api.call('DELETE', `${path}/keys/${encodeURIComponent(id ?? '')}`)
  terminal.value({ id, revoked: true })
  terminal.line(`Key ${id} is revoked.`)
}

/** `new-callback-secret TENANT`: makes the secret that callbacks are signed with and shows it, this once. */
export async function newCallbackSecret({ api, path, terminal }: TenantCall): Promise<void> {
  const made = parse(secretSchema, await api.call('POST', `${path}/callback-secret`, {}), 'the answer')
  terminal.value(made)
  // Alone on stdout, as a new key is.
  terminal.line(made.secret)
  terminal.note('It is not shown again; the one before it signs along for 24 hours.')
}
