import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { acceptedSchema, BOUNDS, parse } from '@cofferdam/contract'
import { z } from 'zod'
import { openApi, type ApiConnection } from '../api-connection.ts'
import { API_FLAGS, type Command, type CommandLine, type Context } from '../command.ts'
import { EXIT } from '../exit-status.ts'
import { findVerb } from '../find-verb.ts'
import { textFlag } from '../parse-command-line.ts'
import { table } from '../table.ts'
import { UsageError } from '../usage-error.ts'

interface Call {
  api: ApiConnection
  words: readonly string[]
  /** `?tenant_id=…`, or nothing for a tenant's own key. */
  query: string
  context: Context
}

const VERBS: Record<string, { usage: string; words: [number, number]; run(call: Call): Promise<void> }> = {
  ls: { usage: 'ls', words: [0, 0], run: list },
  rm: { usage: 'rm BACKEND/KEY', words: [1, 1], run: end },
  files: { usage: 'files BACKEND/KEY [FOLDER]', words: [1, 2], run: files },
  get: { usage: 'get BACKEND/KEY PATH [FILE]', words: [2, 3], run: get },
  put: { usage: 'put BACKEND/KEY FILE [PATH]', words: [2, 3], run: put },
}

export const command: Command = {
  usage: Object.values(VERBS)
    .map(({ usage }) => usage)
    .join(' | '),
  details:
    'A session is named by its backend and its key. What is done with it waits for its turn, behind what runs in it now.',
  flags: {
    tenant: {
      type: 'string',
      value: 'NAME',
      description: 'whose session; for an admin key, which has no tenant',
    },
    ...API_FLAGS,
  },
  words: { min: 1, max: 4 },
  examples: [
    'cofferdam sessions ls --tenant demo',
    'cofferdam sessions put docker/notebook data.csv --tenant demo',
    'cofferdam sessions get docker/notebook out/plot.png plot.png --tenant demo',
    'cofferdam sessions rm docker/notebook --tenant demo',
  ],
  async run(context, line) {
    const [name = '', ...words] = line.words
    const verb = findVerb('sessions', VERBS, name)
    const [least, most] = verb.words
    if (words.length < least || words.length > most)
      throw new UsageError(`Usage: cofferdam sessions ${verb.usage}`)
    await verb.run({ api: openApi(context, line), words, query: queryOf(line), context })
    return EXIT.ok
  },
}

function queryOf(line: CommandLine): string {
  const tenant = textFlag(line, 'tenant')
  return tenant === undefined ? '' : new URLSearchParams({ tenant_id: tenant }).toString()
}

/** `/v1/sessions/{backend}/{key}` of BACKEND/KEY. */
function pathOf(word = ''): string {
  const [backend = '', key = '', ...rest] = word.split('/')
  if (backend === '' || key === '' || rest.length > 0)
    throw new UsageError(`Expected a session as BACKEND/KEY, got ${JSON.stringify(word)}.`)
  return `/v1/sessions/${encodeURIComponent(backend)}/${encodeURIComponent(key)}`
}

const filePathOf = (session: string | undefined, file: string): string =>
  `${pathOf(session)}/files/${file.split('/').map(encodeURIComponent).join('/')}`

// Read leniently: an API that is newer may say more.
const sessionRow = z.object({
  tenant_id: z.string(),
  backend: z.string(),
  key: z.string(),
  scope: z.string(),
  state: z.string(),
  used_at: z.string(),
  idle_at: z.string(),
})
const pageSchema = z.object({ sessions: z.array(sessionRow.loose()), next_cursor: z.string().nullable() })
const filesSchema = z.object({
  files: z.array(z.object({ path: z.string(), size: z.number() })),
  truncated: z.boolean(),
})

async function list({ api, query, context: { terminal } }: Call): Promise<void> {
  const sessions: z.infer<typeof pageSchema>['sessions'] = []
  for (let cursor: string | null = ''; cursor !== null;) {
    const page = new URLSearchParams(query)
    if (cursor !== '') page.set('cursor', cursor)
    const found: z.infer<typeof pageSchema> = parse(
      pageSchema,
      await api.call('GET', `/v1/sessions?${page.toString()}`),
      'the answer',
    )
    sessions.push(...found.sessions)
    cursor = found.next_cursor
  }
  terminal.value(sessions)
  const rows = sessions.map((one) => [
    `${one.backend}/${one.key}`,
    one.scope,
    one.state,
    one.used_at,
    one.idle_at,
  ])
  for (const text of table(['SESSION', 'SCOPE', 'STATE', 'USED', 'ENDS IF IDLE'], rows)) terminal.line(text)
}

async function end({ api, words: [session], query, context }: Call): Promise<void> {
  tell(context, await api.call('DELETE', `${pathOf(session)}?${query}`), 'Ended.')
}

async function files({ api, words: [session, folder], query, context: { terminal } }: Call): Promise<void> {
  const asked = new URLSearchParams(query)
  if (folder !== undefined) asked.set('folder', folder)
  const found = parse(
    filesSchema.or(acceptedSchema),
    await api.call('GET', `${pathOf(session)}/files?${asked.toString()}`),
    'the answer',
  )
  terminal.value(found)
  if ('execution_id' in found) return terminal.note(waiting(found.execution_id))
  for (const text of table(
    ['BYTES', 'PATH'],
    found.files.map(({ path: name, size }) => [size, JSON.stringify(name)]),
  ))
    terminal.line(text)
  if (found.truncated) terminal.note('There are more: name a folder.')
}

async function get({ api, words: [session, from = '', to], query, context }: Call): Promise<void> {
  const bytes = await api.bytes(`${filePathOf(session, from)}?${query}`)
  const target = path.resolve(context.cwd, to ?? path.posix.basename(from))
  await writeFile(target, bytes)
  context.terminal.value({ file: target, bytes: bytes.length })
  context.terminal.line(`${bytes.length} bytes in ${target}`)
}

async function put({ api, words: [session, from = '', to], query, context }: Call): Promise<void> {
  const bytes = await readFile(path.resolve(context.cwd, from))
  if (bytes.length > BOUNDS.fileBytes)
    throw new UsageError(
      `${from} has ${bytes.length} bytes; a file of a session has at most ${BOUNDS.fileBytes}.`,
    )
  const target = filePathOf(session, to ?? path.basename(from))
  tell(context, await api.call('PUT', `${target}?${query}`, bytes), 'Written.')
}

/** Says that it is done, or who does it later. */
function tell({ terminal }: Context, answer: unknown, done: string): void {
  const accepted = answer === undefined ? null : parse(acceptedSchema, answer, 'the answer')
  terminal.value(accepted ?? { ok: true })
  terminal.line(accepted === null ? done : waiting(accepted.execution_id))
}

const waiting = (executionId: string): string =>
  `The session is in use; ${executionId} does it at its turn (cofferdam status ${executionId}).`
