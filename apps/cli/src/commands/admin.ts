import { z } from 'zod'
import { openApi, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb, hasFlag, numberFlag, textFlag, verbUsage, type Verb } from '../parse-command-line.ts'
import { showChanges, table } from '../table.ts'
import type { Terminal } from '../terminal.ts'

const keysSchema = z.object({
  keys: z.array(
    z.object({
      id: z.string(),
      read_only: z.boolean(),
      label: z.string(),
      created_at: z.string(),
      revoked_at: z.string().nullable(),
      last_used_at: z.string().nullable(),
    }),
  ),
})
const keyMadeSchema = z.object({ id: z.string(), key: z.string() })

/** What a verb gets. */
interface AdminCall {
  api: ApiConnection
  words: readonly string[]
  line: CommandLine
  terminal: Terminal
}

const VERBS: Record<string, Verb<(call: AdminCall) => Promise<void>>> = {
  keys: { usage: '', run: keys },
  'new-key': { usage: '', run: newKey },
  'revoke-key': { usage: 'KEY-ID', run: revokeKey },
  events: { usage: '[flags]', run: events },
}

export const command: Command = {
  usage: verbUsage(VERBS),
  details:
    'Needs an admin key. A new key is shown once. The last key that may change things is not revoked.\n' +
    'events lists the changes of all tenants and of admin keys, newest first.',
  flags: {
    'read-only': { type: 'boolean', description: 'new-key: the key may only read' },
    label: { type: 'string', value: 'TEXT', description: 'new-key: what the key is for (default: cli)' },
    limit: { type: 'string', value: 'N', description: 'events: how many (default: 50)' },
    tenant: { type: 'string', value: 'ID', description: 'events: only of this tenant' },
    type: {
      type: 'string',
      value: 'KIND',
      description: 'events: only of this kind, such as admin_key_created',
    },
    ...API_FLAGS,
  },
  words: { min: 1, max: 2 },
  examples: [
    'cofferdam admin new-key --label "on-call laptop"',
    'cofferdam admin new-key --label "screen on the wall" --read-only',
    'cofferdam admin events --type caps --limit 10',
  ],
  async run(context, line) {
    const { run, words } = findVerb('admin', VERBS, line.words)
    await run({ api: openApi(context, line), words, line, terminal: context.terminal })
    return EXIT.ok
  },
}

async function keys({ api, terminal }: AdminCall): Promise<void> {
  const found = (await api.ask(keysSchema, 'GET', '/v1/keys')).keys
  terminal.value(found)
  const rows = found.map((key) => [
    key.id,
    key.label,
    key.read_only ? 'read' : 'all',
    key.created_at,
    key.last_used_at,
    key.revoked_at,
  ])
  terminal.lines(table(['KEY ID', 'LABEL', 'MAY', 'CREATED', 'USED', 'REVOKED'], rows))
}

async function newKey({ api, line, terminal }: AdminCall): Promise<void> {
  const readOnly = hasFlag(line, 'read-only')
  const made = await api.ask(keyMadeSchema, 'POST', '/v1/keys', {
    label: textFlag(line, 'label') ?? 'cli',
    read_only: readOnly,
  })
  terminal.value(made)
  // The key alone on stdout, so that `KEY=$(cofferdam admin new-key)` works.
  terminal.line(made.key)
  terminal.note(`Admin key ${made.id}${readOnly ? ', read-only' : ''}. It is not shown again.`)
}

async function revokeKey({ api, words: [id = ''], terminal }: AdminCall): Promise<void> {
  await api.call('DELETE', `/v1/keys/${encodeURIComponent(id)}`)
  terminal.value({ id, revoked: true })
  terminal.line(`Key ${id} is revoked.`)
}

async function events({ api, line, terminal }: AdminCall): Promise<void> {
  const limit = numberFlag(line, 'limit', { min: 1, max: 500 }) ?? 50
  const [tenant, type] = [textFlag(line, 'tenant'), textFlag(line, 'type')]
  const query = new URLSearchParams({
    limit: String(limit),
    ...(tenant === undefined ? {} : { tenant_id: tenant }),
    ...(type === undefined ? {} : { event_type: type }),
  })
  showChanges(await api.call('GET', `/v1/events?${query.toString()}`), terminal, { namesTenant: true })
}
